"""Glob patterns as regular expressions over relative paths.

`*` and `?` stay within a name, `**` is any number of directories, `[a-z]` and `{py,pyi}` are as in
a shell. The expressions never go back over what they matched: a pattern takes time in proportion
to the path however many stars it has, which matters because patterns come from strangers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from bascule.core.errors import InvalidPattern

_MAX_ALTERNATIVES = 256
_STAR = None
"""Stands between the pieces of a name in which `*` was."""


def compile_glob(pattern: str) -> re.Pattern[str]:
    """For `fullmatch` on a path relative to where the search starts. Raises `InvalidPattern`."""
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise InvalidPattern(
            f"{pattern!r} leads out of the directory searched; give the directory as `path`"
        )
    try:
        alternatives = [translate(each) for each in expand_braces(pattern.removeprefix("./"))]
    except ValueError as error:
        raise InvalidPattern(f"{pattern!r} is not a glob pattern: {error}") from error
    return re.compile("|".join(alternatives), re.DOTALL)


def expand_braces(pattern: str) -> list[str]:
    """`a.{py,pyi}` as `a.py` and `a.pyi`. Raises `ValueError` for braces that do not pair."""
    found = _outer_braces(pattern)
    if found is None:
        return [pattern]
    start, commas, end = found
    inside = [start, *commas, end]
    options = [pattern[a + 1 : b] for a, b in pairwise(inside)]
    tails = expand_braces(pattern[end + 1 :])
    heads = [pattern[:start] + each for option in options for each in expand_braces(option)]
    if len(heads) * len(tails) > _MAX_ALTERNATIVES:
        raise ValueError(f"its braces stand for more than {_MAX_ALTERNATIVES} patterns")
    return [head + tail for head in heads for tail in tails]


def translate(pattern: str) -> str:
    """The expression for one pattern without braces. Raises `ValueError` for an open bracket."""
    groups: list[list[str]] = [[]]
    for segment in pattern.split("/"):
        if len(segment) > 1 and not segment.strip("*"):
            groups.append([])
        elif segment:
            groups[-1].append(_name(segment))
    first, *later = groups
    anchored = "".join(f"{name}/" for name in first)
    if not later:
        return anchored.removesuffix("/")
    *middle, last = [group for group in later[:-1] if group] + later[-1:]
    # The earliest place where the names between two `**` fit is as good as any later one.
    anchored += "".join(f"(?>(?:[^/]+/)*?{''.join(f'{n}/' for n in group)})" for group in middle)
    return anchored + (f"(?:[^/]+/)*{'/'.join(last)}" if last else ".+")


def _name(segment: str) -> str:
    pieces: list[str] = [""]
    for token in _tokens(segment):
        if token is _STAR:
            pieces.append("")
        else:
            pieces[-1] += token
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    # As above: the earliest fit of a piece between two stars is as good as any.
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
            yield _class(segment[at:end])
            at = end + 1
        elif char == "\\" and at < len(segment):
            yield re.escape(segment[at])
            at += 1
        else:
            yield re.escape(char)


def _class_end(segment: str, start: int) -> int:
    """Where the class that starts at `start` ends; a bracket right at its start is a member."""
    at = start + (segment[start : start + 1] in ("!", "^"))
    end = segment.find("]", at + 1)
    if end < 0:
        raise ValueError("a bracket is not closed")
    return end


def _class(inside: str) -> str:
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


def _outer_braces(pattern: str) -> tuple[int, list[int], int] | None:
    """The first pair of braces: where it opens, its commas, and where it closes."""
    start, depth = -1, 0
    commas: list[int] = []
    at = 0
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
