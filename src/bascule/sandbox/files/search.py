"""Finding files by name and lines by content.

With ripgrep where the machine has it, otherwise by our own walk; both find the same. Confined
paths are always walked by ourselves: ripgrep opens files by name, and between its look and its
opening a directory could become a link that leads outside.
"""

from __future__ import annotations

import heapq
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

from bascule.core.actions import Glob, Grep
from bascule.core.errors import InvalidPattern, InvalidRange, NotADirectory
from bascule.core.observations import GlobResult, GrepMatch, GrepResult

from . import ripgrep as rg
from .bounded_process import BoundedProcess, DeadlineExceeded
from .globs import compile_glob
from .linesearch import MAX_LINE, LineMatch
from .paths import Paths, printable
from .walk import walk_files

SEARCH_TIMEOUT = 30.0
"""Seconds a search may take that brings no time-out of its own."""

_PART_FOR_SEARCHING = 0.9


class Search:
    def __init__(
        self, paths: Paths, *, ripgrep: str | None, timeout: float = SEARCH_TIMEOUT
    ) -> None:
        self._paths = paths
        self._ripgrep = None if paths.confined else ripgrep
        self._timeout = timeout

    def glob(self, action: Glob, cwd: str) -> GlobResult:
        """Files whose path below `path` fits; `*.py` is that directory alone, `**/*.py` all.

        When time runs out what was found so far is the answer, as truncated.
        """
        _ensure_limit(action.limit)
        fits = compile_glob(action.pattern).fullmatch
        shown = self._paths.absolute(action.path, cwd)
        ages: list[tuple[int, str]] = []
        late = False
        with self._paths.directory(action.path, cwd) as directory:
            try:
                for path, above, name in self._files(directory, action):
                    if fits(path):
                        ages.append((-_modified(above, name), path))
            except DeadlineExceeded:
                late = True
        newest = heapq.nsmallest(action.limit, ages)
        paths = [_joined(shown, path) for _, path in newest]
        note = _late_note(late) or _limit_note(len(ages) > action.limit, action.limit, "files")
        return GlobResult(
            content="\n".join(paths or [f"No files fit {action.pattern!r} in {shown}"]) + note,
            path=shown,
            pattern=action.pattern,
            paths=paths,
            truncated=bool(note),
        )

    def grep(self, action: Grep, cwd: str) -> GrepResult:
        """Lines in files below `path`, or in `path` itself, file by file in the order of names.

        When time runs out what was found so far is the answer, as truncated. Raises
        `InvalidPattern`, also for a pattern that spans lines.
        """
        _ensure_limit(action.limit)
        _ensure_line_pattern(action.pattern)
        shown = self._paths.absolute(action.path, cwd)
        hits: list[LineMatch] = []
        late = False
        with ExitStack() as held:
            directory, file = self._open(action.path, cwd, held)
            try:
                for hit in self._hits(action, directory, file):
                    hits.append(hit)
                    if len(hits) > action.limit:
                        break
            except DeadlineExceeded:
                late = True
        matches = [
            GrepMatch(path=_joined(shown, hit.path), line=hit.line, text=hit.text)
            for hit in hits[: action.limit]
        ]
        note = _late_note(late) or _limit_note(len(hits) > action.limit, action.limit, "lines")
        lines = [f"{match.path}:{match.line}:{match.text}" for match in matches]
        return GrepResult(
            content="\n".join(lines or [f"No lines match {action.pattern!r} in {shown}"]) + note,
            path=shown,
            pattern=action.pattern,
            matches=matches,
            truncated=bool(note),
        )

    def _files(self, directory: int, action: Glob) -> Iterator[tuple[str, int, str]]:
        """The path of each file, an open directory above it, and its path from there."""
        deadline = self._deadline(action)
        ignored = action.include_ignored
        if self._ripgrep is not None:
            for path in rg.list_files(
                self._ripgrep, directory, include_ignored=ignored, deadline=deadline
            ):
                yield path, directory, path
            return
        for found in walk_files(directory, include_ignored=ignored):
            if time.monotonic() > deadline:
                raise DeadlineExceeded
            yield found.path, found.directory, found.entry.name

    def _open(self, path: str, cwd: str, held: ExitStack) -> tuple[int, int | None]:
        """The directory to search and, when `path` is a file, that file."""
        try:
            return held.enter_context(self._paths.directory(path, cwd)), None
        except NotADirectory:
            place = held.enter_context(self._paths.place(path, cwd))
        file = place.open(os.O_RDONLY)
        held.callback(os.close, file)
        return place.directory, file

    def _hits(self, action: Grep, directory: int, file: int | None) -> Iterator[LineMatch]:
        deadline = self._deadline(action)
        compile_glob(action.include)
        if self._ripgrep is not None:
            try:
                yield from self._hits_by_ripgrep(action, directory, file, deadline)
                return
            except rg.PatternRefused:
                pass  # Python knows expressions that ripgrep does not, such as look-ahead
        yield from _hits_by_python(action, directory, file, deadline)

    def _hits_by_ripgrep(
        self, action: Grep, directory: int, file: int | None, deadline: float
    ) -> Iterator[LineMatch]:
        assert self._ripgrep is not None
        include = compile_glob(action.include).fullmatch
        seen, wanted = "", False
        for hit in rg.search_lines(self._ripgrep, action, directory, file=file, deadline=deadline):
            if hit.path != seen:
                seen = hit.path
                subject = hit.path if "/" in action.include else hit.path.rpartition("/")[2]
                wanted = file is not None or not action.include or bool(include(subject))
                wanted = wanted and not rg.is_binary(directory, hit.path)
            if wanted:
                yield hit if file is None else LineMatch("", hit.line, hit.text)

    def _deadline(self, action: Glob | Grep) -> float:
        """A little before the action's own time is up, so that what was found still gets out."""
        return time.monotonic() + _PART_FOR_SEARCHING * (action.timeout or self._timeout)


def _hits_by_python(
    action: Grep, directory: int, file: int | None, deadline: float
) -> Iterator[LineMatch]:
    request = {
        "directory": directory,
        "file": file,
        "pattern": action.pattern,
        "literal": action.literal,
        "ignore_case": action.ignore_case,
        "include": action.include,
        "include_ignored": action.include_ignored,
    }
    # -P: the directory searched must not be where Python looks for its modules.
    argv = [sys.executable, "-P", "-m", "bascule.sandbox.files._grep_main", json.dumps(request)]
    inherit = [directory] if file is None else [directory, file]
    with BoundedProcess(argv, directory=directory, deadline=deadline, inherit=inherit) as child:
        for piece in child.pieces(b"\n", limit=MAX_LINE):
            message = json.loads(piece)
            if "error" in message:
                raise InvalidPattern(
                    f"{action.pattern!r} is not a regular expression: {message['error']}"
                )
            yield LineMatch(**message)
        complaints = child.complaints()
        if complaints:
            raise RuntimeError(f"The search process failed: {complaints}")


def _modified(above: int, path: str) -> int:
    try:
        return os.stat(path, dir_fd=above, follow_symlinks=False).st_mtime_ns
    except OSError:
        return 0


def _joined(shown: str, path: str) -> str:
    return f"{shown.rstrip('/')}/{printable(path)}" if path else shown


def _ensure_limit(limit: int) -> None:
    if limit < 1:
        raise InvalidRange("`limit` of a search is 1 or more")


def _ensure_line_pattern(pattern: str) -> None:
    if not pattern:
        raise InvalidPattern("The pattern is empty, and would fit every line")
    if "\n" in pattern or "\0" in pattern:
        raise InvalidPattern("Patterns fit within a line: a newline or NUL in them never does")


def _late_note(late: bool) -> str:
    return "\n(out of time: there may be more; narrow the search or give it longer)" * late


def _limit_note(more: bool, limit: int, what: str) -> str:
    return f"\n(only the first {limit} {what}; narrow the search or raise `limit`)" * more
