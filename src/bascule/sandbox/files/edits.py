"""The rules of an edit: text in, text out, no files.

The wording of refusals is what clients of OpenHands' editor look for.
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
    """A text after an edit, and where in it to look."""

    content: str
    line: int
    """The first line that changed, from 1."""
    lines: int
    """How many lines hold the new text."""


def replace_once(text: str, old: str, new: str, *, shown: str) -> Edited:
    """Replace the only occurrence of `old`.

    Line ends and the white space around both strings are looked past when the text does not occur
    as given: agents get those wrong most often. Raises `EditNoMatch` and `EditAmbiguous`.
    """
    for wanted, instead in _readings(text, old, new):
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
        f" {shown}."
    )


def insert_lines(text: str, line: int, new: str) -> Edited:
    """Put the lines of `new` after `line`, 0 being the top.

    After a last line that has no newline they get one before and none behind.
    """
    there = count_lines(text)
    if not 0 <= line <= there:
        raise EditInvalid(
            f"Invalid `insert_line` parameter: {line}. It should be within the range of allowed"
            f" values: {[0, there]}"
        )
    at = skip_lines(text, line)
    before, after = text[:at], text[at:]
    inserted = f"{new}\n" if not before or before.endswith("\n") else f"\n{new}"
    return Edited(before + inserted + after, line + 1, new.count("\n") + 1)


def take_back(before: str, after: str, now: str) -> str | None:
    """`now` without the edit that made `after` of `before`; later changes by others stay.

    None when the same lines were changed since, or lines right beside them.
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


def _readings(text: str, old: str, new: str) -> Iterator[tuple[str, str]]:
    """The texts to search for, the most literal first."""
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
    """The lines on which `wanted` begins, as a list; a long one is cut."""
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
        # An empty text occurs everywhere; once a line is enough.
        following = at + len(wanted) if wanted else text.find("\n", at) + 1 or len(text) + 1
        at = text.find(wanted, following)


def _quoted(text: str) -> str:
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}…"
