"""Finds files by name and lines by content.

Uses ripgrep if it is installed, otherwise our own walk; both give the same results. With roots, our
own walk is always used. Ripgrep opens files by path, and somebody could replace a directory by a
link that leads outside before ripgrep opens it.
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
from bascule.core.globs import compile_glob
from bascule.core.observations import GlobResult, GrepMatch, GrepResult

from . import ripgrep as rg
from .bounded_process import BoundedProcess, DeadlineExceeded
from .linesearch import MAX_LINE, LineMatch
from .paths import Paths, printable
from .walk import walk_files

SEARCH_TIMEOUT = 30.0
"""Timeout in seconds of a search whose action has none."""

_SEARCHING_SHARE = 0.9
"""Share of the timeout in which files are searched. The rest is for returning the results."""


class Search:
    def __init__(
        self, paths: Paths, *, ripgrep: str | None, timeout: float = SEARCH_TIMEOUT
    ) -> None:
        self._paths = paths
        self._ripgrep = None if paths.confined else ripgrep
        self._timeout = timeout

    def glob(self, action: Glob, cwd: str) -> GlobResult:
        """Find files whose path below `path` matches, newest first.

        `*.py` matches in that directory only, `**/*.py` at any depth. After the timeout, returns
        the files found so far, marked as truncated.
        """
        _ensure_limit(action.limit)
        matches = compile_glob(action.pattern).fullmatch
        shown_path = self._paths.absolute(action.path, cwd)
        ages: list[tuple[int, str]] = []
        late = False
        with self._paths.directory(action.path, cwd) as directory:
            try:
                for path, above, name in self._files(directory, action):
                    if matches(path):
                        ages.append((-_modified(above, name), path))
            except DeadlineExceeded:
                late = True
        newest = heapq.nsmallest(action.limit, ages)
        paths = [_joined(shown_path, path) for _, path in newest]
        note = _late_note(late) or _limit_note(len(ages) > action.limit, action.limit, "files")
        return GlobResult(
            content="\n".join(paths or [f"No files match {action.pattern!r} in {shown_path}"])
            + note,
            path=shown_path,
            pattern=action.pattern,
            paths=paths,
            truncated=bool(note),
        )

    def grep(self, action: Grep, cwd: str) -> GrepResult:
        """Find matching lines in files below `path`, sorted by name, or in the file `path`.

        After the timeout, returns the lines found so far, marked as truncated. Raises
        `InvalidPattern`, also for a pattern that contains a newline.
        """
        _ensure_limit(action.limit)
        _ensure_line_pattern(action.pattern)
        shown_path = self._paths.absolute(action.path, cwd)
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
            GrepMatch(path=_joined(shown_path, hit.path), line=hit.line, text=hit.text)
            for hit in hits[: action.limit]
        ]
        note = _late_note(late) or _limit_note(len(hits) > action.limit, action.limit, "lines")
        lines = [f"{match.path}:{match.line}:{match.text}" for match in matches]
        return GrepResult(
            content="\n".join(lines or [f"No lines match {action.pattern!r} in {shown_path}"])
            + note,
            path=shown_path,
            pattern=action.pattern,
            matches=matches,
            truncated=bool(note),
        )

    def _files(self, directory: int, action: Glob) -> Iterator[tuple[str, int, str]]:
        """Yield for each file: its path, an open directory above it, and its path from that
        directory."""
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
        """Open the directory to search. If `path` is a file, open the file and its directory."""
        try:
            return held.enter_context(self._paths.directory(path, cwd)), None
        except NotADirectory:
            pinned = held.enter_context(self._paths.pin(path, cwd))
        file = pinned.open(os.O_RDONLY)
        held.callback(os.close, file)
        return pinned.directory, file

    def _hits(self, action: Grep, directory: int, file: int | None) -> Iterator[LineMatch]:
        deadline = self._deadline(action)
        compile_glob(action.include)
        if self._ripgrep is not None:
            try:
                yield from self._hits_by_ripgrep(action, directory, file, deadline)
                return
            except rg.PatternRefused:
                pass  # Python supports expressions that ripgrep does not, such as look-ahead
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
        """Return a deadline shortly before the action's own timeout, which would discard the
        results found so far."""
        return time.monotonic() + _SEARCHING_SHARE * (action.timeout or self._timeout)


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
    # -P: Python must not import modules from its working directory, which is the one searched.
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
        stderr_text = child.stderr_text()
        if stderr_text:
            raise RuntimeError(f"The search process failed: {stderr_text}")


def _modified(above: int, path: str) -> int:
    try:
        return os.stat(path, dir_fd=above, follow_symlinks=False).st_mtime_ns
    except OSError:
        return 0


def _joined(shown_path: str, path: str) -> str:
    return f"{shown_path.rstrip('/')}/{printable(path)}" if path else shown_path


def _ensure_limit(limit: int) -> None:
    if limit < 1:
        raise InvalidRange("`limit` of a search must be 1 or more")


def _ensure_line_pattern(pattern: str) -> None:
    if not pattern:
        raise InvalidPattern("The pattern is empty and would match every line")
    if "\n" in pattern or "\0" in pattern:
        raise InvalidPattern(
            "A pattern matches within one line, so it must not contain a newline or NUL"
        )


def _late_note(late: bool) -> str:
    return "\n(out of time: there may be more; narrow the search or give it longer)" * late


def _limit_note(more: bool, limit: int, what: str) -> str:
    return f"\n(only the first {limit} {what}; narrow the search or raise `limit`)" * more
