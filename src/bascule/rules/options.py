"""Reads the options of a command's words as getopt does. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .syntax import Word


@dataclass(frozen=True)
class GivenOption:
    """One option, as `-x` or `--name`, the position of its word, and its value if it takes one."""

    name: str
    index: int
    value: Word | None = None


@dataclass(frozen=True)
class Reading:
    """The options of a command and the positions of its other words."""

    options: Sequence[GivenOption]
    operands: Sequence[int]


def is_short_for(name: str, full: str) -> bool:
    """Whether `name` is the long option `full` or an abbreviation, which programs accept too."""
    return len(name) > 2 and full.startswith(name)


def read_options(
    words: Sequence[Word],
    valued: str,
    *,
    attached: str = "",
    long_valued: Sequence[str] = (),
    stops_at_operand: bool = False,
) -> Reading:
    """Read the options after the name of a command.

    `valued`: letters of the short options that take a value. `attached`: letters of those whose
    value can only be the rest of the same word. `long_valued`: long options whose value may be the
    next word. Options end at `--`. Unknown words count as operands.
    """
    options, operands = list[GivenOption](), list[int]()
    index = 1
    while index < len(words):
        text = words[index].text
        if text == "--":
            operands.extend(range(index + 1, len(words)))
            break
        if text is None or not text.startswith("-") or text == "-":
            operands.append(index)
            if stops_at_operand:
                operands.extend(range(index + 1, len(words)))
                break
            index += 1
            continue
        following = words[index + 1] if index + 1 < len(words) else None
        if text.startswith("--"):
            found, took_next = _long(text, index, following, long_valued)
        else:
            found, took_next = _short(text, index, following, valued, attached)
        options.extend(found)
        index += 2 if took_next else 1
    return Reading(options, operands)


def _long(
    text: str, index: int, following: Word | None, valued: Sequence[str]
) -> tuple[Sequence[GivenOption], bool]:
    name, equals, value = text.partition("=")
    if equals:
        return [GivenOption(name, index, Word(value, 0, 0, value))], False
    if following is not None and any(is_short_for(name, each) for each in valued):
        return [GivenOption(name, index, following)], True
    return [GivenOption(name, index)], False


def _short(
    text: str, index: int, following: Word | None, valued: str, attached: str
) -> tuple[Sequence[GivenOption], bool]:
    found = []
    for position, letter in enumerate(text[1:], start=2):
        rest = text[position:]
        if letter in attached:
            found.append(GivenOption(f"-{letter}", index, Word(rest, 0, 0, rest)))
            return found, False
        if letter not in valued:
            found.append(GivenOption(f"-{letter}", index))
            continue
        value = Word(rest, 0, 0, rest) if rest else following
        found.append(GivenOption(f"-{letter}", index, value))
        return found, not rest and following is not None
    return found, False
