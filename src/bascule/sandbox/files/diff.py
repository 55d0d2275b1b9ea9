"""Unified diffs without context lines, in time that grows with the change, not with the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import SequenceMatcher

_BLOCK = 1 << 16
_MAX_MATCHED = 2000
"""Maximum changed lines on either side that are matched with each other, which takes quadratic
time. Beyond that, the diff is one hunk."""


def unified_diff(old: str, new: str, path: str) -> str:
    """Return a unified diff; empty if nothing changed."""
    if old == new:
        return ""
    start = _line_start(old, _common_start(old, new))
    ending = _common_end(old, new, start)
    old_lines = split_lines(old[start : len(old) - ending])
    new_lines = split_lines(new[start : len(new) - ending])
    above = old.count("\n", 0, start)
    hunks = "".join(_hunks(old_lines, new_lines, above))
    return f"--- {path}\n+++ {path}\n{hunks}".removesuffix("\n")


def _hunks(old: list[str], new: list[str], above: int) -> Iterator[str]:
    for i1, i2, j1, j2 in _changes(old, new):
        yield f"@@ -{_span(above, i1, i2)} +{_span(above, j1, j2)} @@\n"
        yield from (_marked("-", line) for line in old[i1:i2])
        yield from (_marked("+", line) for line in new[j1:j2])


def line_changes(old: str, new: str) -> list[tuple[int, int, int, int]]:
    """Return the changes in order, each as (start, end, start, end): the range of lines of `old`,
    and the range of lines of `new` that replaces it. Line numbers start at 0."""
    if old == new:
        return []
    start = _line_start(old, _common_start(old, new))
    ending = _common_end(old, new, start)
    above = old.count("\n", 0, start)
    changes = _changes(
        split_lines(old[start : len(old) - ending]), split_lines(new[start : len(new) - ending])
    )
    return [(above + i1, above + i2, above + j1, above + j2) for i1, i2, j1, j2 in changes]


def split_lines(text: str) -> list[str]:
    """Split at newlines only, and keep them."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _changes(old: list[str], new: list[str]) -> Iterator[tuple[int, int, int, int]]:
    if max(len(old), len(new)) > _MAX_MATCHED:
        yield 0, len(old), 0, len(new)
        return
    for tag, *change in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            i1, i2, j1, j2 = change
            yield i1, i2, j1, j2


def _span(above: int, start: int, end: int) -> str:
    """Format `line,count`; for an empty range, `line` is the line before it."""
    count = end - start
    line = above + start + (count > 0)
    return str(line) if count == 1 else f"{line},{count}"


def _marked(sign: str, line: str) -> str:
    if line.endswith("\n"):
        return f"{sign}{line}"
    return f"{sign}{line}\n\\ No newline at end of file\n"


def _line_start(text: str, position: int) -> int:
    return text.rfind("\n", 0, position) + 1


def _common_start(old: str, new: str) -> int:
    """Return the length of the common prefix."""
    return _common_length(min(len(old), len(new)), lambda i, j: old[i:j] == new[i:j])


def _common_end(old: str, new: str, start: int) -> int:
    """Return the length of the common suffix, in whole lines that begin after `start`."""
    a, b = len(old), len(new)
    same = _common_length(min(a, b) - start, lambda i, j: old[a - j : a - i] == new[b - j : b - i])
    if not _is_line_start(old, a - same) or not _is_line_start(new, b - same):
        newline = old.find("\n", a - same)
        same = 0 if newline < 0 else a - newline - 1
    return same


def _common_length(end: int, agrees: Callable[[int, int], bool]) -> int:
    """Return the largest `n` up to `end` for which the first `n` characters agree.

    Compares blocks, then searches the first differing block by bisection.
    """
    at = 0
    while at < end and agrees(at, min(at + _BLOCK, end)):
        at = min(at + _BLOCK, end)
    stop = min(at + _BLOCK, end)
    while at < stop:
        middle = (at + stop + 1) // 2
        if agrees(at, middle):
            at = middle
        else:
            stop = middle - 1
    return at


def _is_line_start(text: str, position: int) -> bool:
    return position == 0 or text[position - 1] == "\n"
