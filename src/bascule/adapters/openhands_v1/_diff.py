"""Restores the text before an edit from the new text and the diff."""

from __future__ import annotations

import re

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@$")
_NO_NEWLINE = "\\ No newline at end of file"

Hunk = tuple[int, list[str], list[str]]


def revert(text: str, diff: str) -> str | None:
    """Revert the unified `diff` that led to `text`. None if the diff does not match `text`."""
    lines = _lines(text)
    shift = 0
    for start, removed, added in _hunks(diff):
        end = start + shift + len(added)
        if lines[start + shift : end] != added:
            return None
        lines[start + shift : end] = removed
        shift += len(removed) - len(added)
    return "".join(lines)


def _hunks(diff: str) -> list[Hunk]:
    """The hunks of a diff: start line in the new text, removed lines, added lines."""
    found: list[Hunk] = []
    changed: list[str] = []
    for line in diff.split("\n")[2:]:
        if match := _HUNK.match(line):
            is_removal = match[2] == "0"
            found.append((int(match[1]) - (not is_removal), [], []))
        elif line == _NO_NEWLINE:
            changed[-1] = changed[-1].removesuffix("\n")
        elif found:
            _, removed, added = found[-1]
            changed = removed if line.startswith("-") else added
            changed.append(f"{line[1:]}\n")
    return found


def _lines(text: str) -> list[str]:
    """The lines of `text` with their newlines. Only `\\n` ends a line, unlike in `splitlines`."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines
