"""Glob patterns as regular expressions over relative paths.

`*` and `?` stay within a name, `**` is any number of directories, `[a-z]` and `{py,pyi}` are as in
a shell. Patterns are untrusted, so the expressions never backtrack: matching takes linear time in
the length of the path, whatever the number of stars.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from bascule.core.errors import InvalidPattern

_MAX_ALTERNATIVES = 256
_MAX_NESTING = 32
_STAR = None
"""Marks a `*` between the pieces of a name."""


def compile_glob(pattern: str) -> re.Pattern[str]:
    """A regular expression for `fullmatch` on a path relative to the searched directory.

    Raises `InvalidPattern`.
    """
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise InvalidPattern(
            f"{pattern!r} leads out of the directory searched; give the directory as `path`"
        )
    try:
        alternatives = [translate(each) for each in expand_braces(pattern.removeprefix("./"))]
    except ValueError as error:
        raise InvalidPattern(f"{pattern!r} is not a glob pattern: {error}") from error
    return re.compile("|".join(alternatives), re.DOTALL)


def expand_braces(pattern: str, *, depth: int = 0) -> list[str]:
    """Expand braces: `a.{py,pyi}` to `a.py` and `a.pyi`. Raises `ValueError` for a brace that is
    not closed."""
    if depth > _MAX_NESTING:
        raise ValueError(f"its braces are nested more than {_MAX_NESTING} deep")
    expanded = [""]
    at = 0
    while (braces := _outer_braces(pattern, at)) is not None:
        start, commas, end = braces
        options = [
            each
            for a, b in pairwise([start, *commas, end])
            for each in expand_braces(pattern[a + 1 : b], depth=depth + 1)
        ]
        if len(expanded) * len(options) > _MAX_ALTERNATIVES:
            raise ValueError(f"its braces stand for more than {_MAX_ALTERNATIVES} patterns")
        before = pattern[at:start]
        expanded = [head + before + option for head in expanded for option in options]
        at = end + 1
    return [head + pattern[at:] for head in expanded]


def translate(pattern: str) -> str:
    """The regular expression for a pattern without braces. Raises `ValueError` for an unclosed
    bracket."""
    groups: list[list[str]] = [[]]
    for segment in pattern.split("/"):
        if len(segment) > 1 and not segment.strip("*"):
            groups.append([])
        elif segment:
            groups[-1].append(_name_expression(segment))
    first, *later = groups
    anchored = "".join(f"{name}/" for name in first)
    if not later:
        return anchored.removesuffix("/")
    *middle, last = [group for group in later[:-1] if group] + later[-1:]
    # An atomic group, so no backtracking: the earliest match of the names between two `**` is
    # as good as any later match.
    anchored += "".join(f"(?>(?:[^/]+/)*?{''.join(f'{n}/' for n in group)})" for group in middle)
    return anchored + (f"(?:[^/]+/)*{'/'.join(last)}" if last else ".+")


def _name_expression(segment: str) -> str:
    pieces: list[str] = [""]
    for token in _tokens(segment):
        if token is _STAR:
            pieces.append("")
        else:
            pieces[-1] += token
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    # As in `translate`: the earliest match of a piece between two stars is as good as any.
    return first + "".join(f"(?>[^/]*?{piece})" for piece in middle if piece) + f"[^/]*{last}"


def _tokens(segment: str) -> Iterator[str | None]:
    at = 0
    while at < len(segment):
        char = segment[at]
        at += 1
        if char == "*":
            yield _STAR
        elif char == "?":
            yield "[^/]"
        elif char == "[":
            end = _class_end(segment, at)
            yield _class_expression(segment[at:end])
            at = end + 1
        elif char == "\\" and at < len(segment):
            yield re.escape(segment[at])
            at += 1
        else:
            yield re.escape(char)


def _class_end(segment: str, start: int) -> int:
    """The end of the character class that starts at `start`. A `]` at its start is a member."""
    at = start + (segment[start : start + 1] in ("!", "^"))
    end = segment.find("]", at + 1)
    if end < 0:
        raise ValueError("a bracket is not closed")
    return end


def _class_expression(inside: str) -> str:
    negated = inside[0] in "!^"
    members = inside[1:] if negated else inside
    parts = []
    at = 0
    while at < len(members):
        low, high = members[at], members[at]
        if members[at + 1 : at + 2] == "-" and at + 2 < len(members):
            high = members[at + 2]
            at += 2
        at += 1
        if low > high:
            raise ValueError(f"the range {low}-{high} is empty")
        parts.append(f"{re.escape(low)}-{re.escape(high)}")
    return f"[^/{''.join(parts)}]" if negated else f"(?!/)[{''.join(parts)}]"


def _outer_braces(pattern: str, at: int) -> tuple[int, list[int], int] | None:
    """The first pair of braces from `at` on: positions of `{`, of its commas, and of `}`."""
    start, depth = -1, 0
    commas: list[int] = []
    while at < len(pattern):
        match pattern[at]:
            case "\\":
                at += 1
            case "{":
                depth += 1
                start = at if depth == 1 else start
            case "}" if depth:
                depth -= 1
                if depth == 0:
                    return start, commas, at
            case "," if depth == 1:
                commas.append(at)
        at += 1
    if depth:
        raise ValueError("a brace is not closed")
    return None
