"""The rules of an edit: pure functions from text to text, without files.

Clients of OpenHands' editor look for the exact wording of the error messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bascule.core.errors import EditAmbiguous, EditInvalid, EditNoMatch

from .diff import line_changes, split_lines
from .lines import count_lines, skip_lines
from .textfile import unix_lines

_MAX_QUOTED = 1000
_MAX_LINES_NAMED = 100


@dataclass(frozen=True, slots=True)
class Edited:
    """A text after an edit, and the lines that changed."""

    content: str
    line: int
    """The first line that changed, from 1."""
    line_count: int
    """How many lines hold the new text."""


def replace_once(text: str, old: str, new: str, *, shown_path: str) -> Edited:
    """Replace the only occurrence of `old`.

    If `old` does not occur literally, the search is repeated with other line endings, and then
    without surrounding white space, because agents often get those wrong. Raises `EditNoMatch` and
    `EditAmbiguous`.
    """
    for wanted, instead in _search_pairs(text, old, new):
        at = text.find(wanted)
        if at < 0:
            continue
        if _occurs_again(text, wanted, at):
            raise EditAmbiguous(
                f"No replacement was performed. Multiple occurrences of old_str `{_quoted(old)}`"
                f" in lines {_lines_of(text, wanted)}. Please ensure it is unique."
            )
        content = text[:at] + instead + text[at + len(wanted) :]
        return Edited(content, text.count("\n", 0, at) + 1, instead.count("\n") + 1)
    raise EditNoMatch(
        f"No replacement was performed, old_str `{_quoted(old)}` did not appear verbatim in"
        f" {shown_path}."
    )


def insert_lines(text: str, line: int, new: str) -> Edited:
    """Insert the lines of `new` after `line`; 0 inserts at the top.

    After a last line without newline, a newline is added before `new` and none after it.
    """
    line_count = count_lines(text)
    if not 0 <= line <= line_count:
        raise EditInvalid(
            f"Invalid `insert_line` parameter: {line}. It should be within the range of allowed"
            f" values: {[0, line_count]}"
        )
    at = skip_lines(text, line)
    before, after = text[:at], text[at:]
    inserted = f"{new}\n" if not before or before.endswith("\n") else f"\n{new}"
    return Edited(before + inserted + after, line + 1, new.count("\n") + 1)


def without_edit(before: str, after: str, now: str) -> str | None:
    """Return `now` without the edit that changed `before` to `after`; later changes are kept.

    Returns None if a later change touches the same or adjacent lines.
    """
    if now == after:
        return before
    old, lines = split_lines(before), split_lines(now)
    since = line_changes(after, now)
    undone: list[str] = []
    at = 0
    for start, end, first, last in line_changes(after, before):
        if any(i1 <= end and i2 >= start for i1, i2, _, _ in since):
            return None
        moved = sum((j2 - j1) - (i2 - i1) for i1, i2, j1, j2 in since if i2 < start)
        undone += lines[at : start + moved] + old[first:last]
        at = end + moved
    return "".join(undone + lines[at:])


def _search_pairs(text: str, old: str, new: str) -> Iterator[tuple[str, str]]:
    """Yield pairs of text to search for and its replacement, the literal pair first."""
    yield old, new
    if "\r\n" in old:
        yield unix_lines(old), unix_lines(new)
    elif "\n" in old and "\r\n" in text:
        yield old.replace("\n", "\r\n"), unix_lines(new).replace("\n", "\r\n")
    if old.strip():
        yield old.strip(), new.strip()


def _occurs_again(text: str, wanted: str, at: int) -> bool:
    if not wanted:
        return bool(text)
    return text.find(wanted, at + len(wanted)) >= 0


def _lines_of(text: str, wanted: str) -> str:
    """Format the numbers of the lines on which `wanted` begins; a long list is cut."""
    named: list[int] = []
    line, last = 1, 0
    for at in _positions(text, wanted):
        line, last = line + text.count("\n", last, at), at
        if named[-1:] == [line]:
            continue
        if len(named) == _MAX_LINES_NAMED:
            return f"{str(named)[:-1]}, …]"
        named.append(line)
    return str(named)


def _positions(text: str, wanted: str) -> Iterator[int]:
    at = text.find(wanted)
    while at >= 0:
        yield at
        # An empty text occurs at every position; report it once per line.
        following = at + len(wanted) if wanted else text.find("\n", at) + 1 or len(text) + 1
        at = text.find(wanted, following)


def _quoted(text: str) -> str:
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}…"
