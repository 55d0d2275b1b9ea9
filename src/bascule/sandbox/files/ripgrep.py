"""Runs ripgrep with options that give the same results as our own search."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Iterator
from typing import Any

from bascule.core.actions import Grep

from .bounded_process import BoundedProcess
from .linesearch import MAX_LINE, LineMatch, excerpt
from .textfile import SAMPLE_BYTES, decode_line, looks_binary
from .walk import VERSION_CONTROL

_MAX_PIECE = 2 * MAX_LINE
_MAX_PATH = 1 << 16


class PatternRefused(Exception):
    """Ripgrep does not support the pattern; Python's regular expressions may."""


def find_ripgrep() -> str | None:
    """Return the path of `rg`; None if it is not installed."""
    return shutil.which("rg")


def list_files(
    program: str, directory: int, *, include_ignored: bool, deadline: float
) -> Iterator[str]:
    """Yield paths relative to the open directory, unsorted. Raises `DeadlineExceeded`."""
    argv = [program, "--files", "--null", *_rules(include_ignored), "./"]
    with BoundedProcess(argv, directory=directory, deadline=deadline) as child:
        for piece in child.pieces(b"\0", limit=_MAX_PATH):
            yield os.fsdecode(piece).removeprefix("./")


def search_lines(
    program: str, action: Grep, directory: int, *, file: int | None, deadline: float
) -> Iterator[LineMatch]:
    """Yield matches below the open directory or in the open file.

    Raises `DeadlineExceeded` and `PatternRefused`.
    """
    argv = [program, "--json", "--crlf", "--sort=path", f"--max-count={action.limit + 1}"]
    argv += _rules(action.include_ignored)
    argv += ["--ignore-case"] * action.ignore_case + ["--fixed-strings"] * action.literal
    argv += _names(action.include) if file is None else []
    argv += ["--regexp", action.pattern, "--", f"/proc/self/fd/{file}" if file else "./"]
    inherit = () if file is None else (file,)
    with BoundedProcess(argv, directory=directory, deadline=deadline, inherit=inherit) as child:
        for piece in child.pieces(b"\n", limit=_MAX_PIECE):
            hit = _hit(piece)
            if hit is not None:
                yield hit
        stderr_text = child.stderr_text()
        if stderr_text:
            raise PatternRefused(stderr_text)


def is_binary(directory: int, path: str) -> bool:
    """Whether our own search skips the file. Ripgrep reports matches before the first NUL."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return True
    try:
        return looks_binary(os.pread(descriptor, SAMPLE_BYTES, 0))
    finally:
        os.close(descriptor)


def _rules(include_ignored: bool) -> list[str]:
    rules = ["--no-config", "--no-messages", "--hidden", "--no-require-git"]
    rules += ["--no-ignore-global", "--no-ignore-exclude", "--no-ignore-dot"]
    rules += [f"--glob=!{name}" for name in VERSION_CONTROL]
    return [*rules, "--no-ignore"] if include_ignored else rules


def _names(include: str) -> list[str]:
    """Return options that limit the search to a file type of our own.

    `--glob` would do the same, but would also search files that `.gitignore` excludes.
    """
    name = include.rpartition("/")[2]
    if name in ("", "**"):
        return []
    return [f"--type-add=bascule:{name}", "--type=bascule"]


def _hit(piece: bytes) -> LineMatch | None:
    message: dict[str, Any] = json.loads(piece) if piece else {}
    if message.get("type") != "match":
        return None
    data = message["data"]
    line = _bytes(data["lines"]).rstrip(b"\n").removesuffix(b"\r")
    text = decode_line(line)
    at = len(decode_line(line[: data["submatches"][0]["start"]])) if data["submatches"] else 0
    path = os.fsdecode(_bytes(data["path"])).removeprefix("./")
    return LineMatch(path, data["line_number"], excerpt(text, at))


def _bytes(value: dict[str, str]) -> bytes:
    if "bytes" in value:
        return base64.b64decode(value["bytes"])
    return value["text"].encode()
