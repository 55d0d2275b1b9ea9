"""Positions in texts: lines and columns as language servers count them, and symbols in lines.

Servers count columns in UTF-16 units. `extension/src/language/symbol_in_line.ts` has the same rule
for symbols.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bascule.core.errors import InvalidRange, NoSuchSymbol

_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_MAX_LINE: Final = 300
"""Maximum characters of a line in an error message."""

Position = Mapping[str, int]
Range = Mapping[str, Position]


class TextLines:
    """The lines of a text, without their ends."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0]
        self._ends: list[int] = []
        for match in _LINE_END.finditer(text):
            self._ends.append(match.start())
            self._starts.append(match.end())
        self._ends.append(len(text))

    @property
    def count(self) -> int:
        return len(self._starts)

    def line(self, index: int) -> str:
        """The line with this number, from 0."""
        return self._text[self._starts[index] : self._ends[index]]

    def offset(self, position: Position) -> int:
        """The index of a position in the text. A position after the end of its line or of the text
        is moved to that end, as the protocol demands."""
        index = position["line"]
        if index >= self.count:
            return len(self._text)
        return self._starts[index] + _characters(self.line(index), position["character"])


@dataclass(frozen=True, slots=True)
class TextEdit:
    start: int
    end: int
    text: str


def with_edits(text: str, edits: Sequence[TextEdit]) -> str:
    """The text with all edits. Edits at the same place are applied in their order."""
    parts, at = [], 0
    for edit in sorted(edits, key=lambda each: (each.start, each.end)):
        parts += [text[at : edit.start], edit.text]
        at = max(at, edit.end)
    return "".join([*parts, text[at:]])


def symbol_range(
    lines: TextLines, shown_path: str, line: int | None, symbol: str, occurrence: int
) -> Range:
    """The range of a symbol that is named by its text."""
    if not symbol.strip():
        raise NoSuchSymbol("A `symbol` is needed: its text in the line")
    text = _line(lines, shown_path, line)
    assert line is not None
    start, end = symbol_in_line(text, symbol, occurrence, f"line {line} of {shown_path}")
    return {
        "start": {"line": line - 1, "character": utf16_length(text[:start])},
        "end": {"line": line - 1, "character": utf16_length(text[:end])},
    }


def lines_range(lines: TextLines, shown_path: str, line: int | None, end_line: int | None) -> Range:
    """The range of whole lines, from the first character that is not a space."""
    first = _line(lines, shown_path, line)
    last = _line(lines, shown_path, line if end_line is None else end_line)
    assert line is not None
    if end_line is not None and end_line < line:
        raise InvalidRange("`end_line` is before `line`")
    indent = len(first) - len(first.lstrip())
    return {
        "start": {"line": line - 1, "character": utf16_length(first[:indent])},
        "end": {"line": (end_line or line) - 1, "character": utf16_length(last)},
    }


def symbol_in_line(text: str, symbol: str, occurrence: int, line_name: str) -> tuple[int, int]:
    """Start and end of the symbol as a whole word; of several occurrences, the one with this
    number, from 1. Raises `NoSuchSymbol`."""
    found = _whole_words(text, symbol)
    if 1 <= occurrence <= len(found):
        return found[occurrence - 1]
    times = "once" if len(found) == 1 else f"{len(found)} times"
    reason = (
        f"occurs {times}, so there is no occurrence {occurrence},"
        if found
        else "is not a whole word"
    )
    shown = f"{text[:_MAX_LINE]}…" if len(text) > _MAX_LINE else text
    raise NoSuchSymbol(f"'{symbol}' {reason} in {line_name}. The line is: {shown}")


def utf16_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def overlap(one: Range, other: Range) -> bool:
    """Whether two ranges have a position in common."""
    return _key(one["start"]) <= _key(other["end"]) and _key(other["start"]) <= _key(one["end"])


def range_fields(found: Mapping[str, Any]) -> dict[str, int]:
    """A range in the form of result items: lines and columns count from 1."""
    start, end = found["start"], found["end"]
    return {
        "line": start["line"] + 1,
        "column": start["character"] + 1,
        "end_line": end["line"] + 1,
        "end_column": end["character"] + 1,
    }


def _line(lines: TextLines, shown_path: str, line: int | None) -> str:
    if line is None or not 1 <= line <= lines.count:
        value = "missing" if line is None else line
        raise InvalidRange(f"{shown_path} has lines 1 to {lines.count}; `line` is {value}")
    return lines.line(line - 1)


def _characters(line: str, units: int) -> int:
    """The number of characters in the first `units` UTF-16 code units of a line."""
    if line.isascii():
        return min(units, len(line))
    data = line.encode("utf-16-le", "surrogatepass")[: 2 * units]
    return len(data.decode("utf-16-le", "ignore"))


def _whole_words(text: str, symbol: str) -> list[tuple[int, int]]:
    found = []
    at = text.find(symbol) if symbol else -1
    while at >= 0:
        end = at + len(symbol)
        if not _are_one_word(text[:at], symbol) and not _are_one_word(symbol, text[end:]):
            found.append((at, end))
        at = text.find(symbol, at + 1)
    return found


def _are_one_word(left: str, right: str) -> bool:
    return bool(left and right) and _is_word(left[-1]) and _is_word(right[0])


def _is_word(character: str) -> bool:
    return character in "_$" or unicodedata.category(character)[0] in "LNM"


def _key(position: Position) -> tuple[int, int]:
    return position["line"], position["character"]
