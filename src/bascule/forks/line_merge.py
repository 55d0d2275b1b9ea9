"""Merges the lines of three versions of a file: a common base, ours and theirs. Pure functions.

The rule is that of diff3. Lines that all three versions share divide the file into regions. A
region that only one side changed takes that side's lines. A region that both sides changed to the
same lines takes these lines once. Every other region is a conflict, for which nothing is chosen.
Changes of adjacent lines, with no unchanged line between them, are one region.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

MAX_DIFFERING_LINES: Final = 20_000
"""Maximum number of differing lines in two versions together. Comparing more may take minutes."""


class LineRange(NamedTuple):
    """Lines from `start` up to, not including, `end`; counted from 0."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class LineConflict:
    """A region that both sides changed in different ways."""

    base: LineRange
    ours: LineRange
    theirs: LineRange


@dataclass(frozen=True, slots=True)
class LineMerge:
    """The result of a merge. `content` is None if there is a conflict."""

    content: bytes | None
    conflicts: Sequence[LineConflict] = ()


class TooManyLines(ValueError):
    """Raised for versions that differ in more than `MAX_DIFFERING_LINES` lines."""


class _Block(NamedTuple):
    """Equal lines in all three versions."""

    base: int
    ours: int
    theirs: int
    length: int


def split_lines(content: bytes) -> list[bytes]:
    """Lines with their ends. Only LF ends a line, so CR stays a part of the line."""
    lines = [line + b"\n" for line in content.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def merge_lines(base: bytes, ours: bytes, theirs: bytes) -> LineMerge:
    """Merge two versions of a file. Raises `TooManyLines`."""
    versions = split_lines(base), split_lines(ours), split_lines(theirs)
    merged: list[bytes] = []
    conflicts: list[LineConflict] = []
    for is_shared, region in _regions(*versions):
        pieces = [
            lines[part.start : part.end]
            for lines, part in zip(versions, (region.base, region.ours, region.theirs), strict=True)
        ]
        chosen = pieces[0] if is_shared else _choose_lines(*pieces)
        if chosen is None:
            conflicts.append(region)
        else:
            merged += chosen
    return LineMerge(None, conflicts) if conflicts else LineMerge(b"".join(merged))


def _choose_lines(base: list[bytes], ours: list[bytes], theirs: list[bytes]) -> list[bytes] | None:
    if ours in (base, theirs):
        return theirs
    return ours if theirs == base else None


def _regions(
    base: list[bytes], ours: list[bytes], theirs: list[bytes]
) -> Iterator[tuple[bool, LineConflict]]:
    """All regions in order, and whether all three versions share the region."""
    position = _Block(0, 0, 0, 0)
    end = _Block(len(base), len(ours), len(theirs), 0)
    for block in (*_shared(base, ours, theirs), end):
        if (position.base, position.ours, position.theirs) != (
            block.base,
            block.ours,
            block.theirs,
        ):
            yield False, _region(position, block)
        after = _Block(
            block.base + block.length, block.ours + block.length, block.theirs + block.length, 0
        )
        if block.length:
            yield True, _region(block, after)
        position = after


def _region(start: _Block, end: _Block) -> LineConflict:
    return LineConflict(
        LineRange(start.base, end.base),
        LineRange(start.ours, end.ours),
        LineRange(start.theirs, end.theirs),
    )


def _shared(base: list[bytes], ours: list[bytes], theirs: list[bytes]) -> Iterator[_Block]:
    """The blocks of lines that all three versions have in common."""
    ours_matches, theirs_matches = _matches(base, ours), _matches(base, theirs)
    i = j = 0
    while i < len(ours_matches) and j < len(theirs_matches):
        base_1, ours_at, length_1 = ours_matches[i]
        base_2, theirs_at, length_2 = theirs_matches[j]
        start = max(base_1, base_2)
        end = min(base_1 + length_1, base_2 + length_2)
        if start < end:
            yield _Block(start, ours_at + start - base_1, theirs_at + start - base_2, end - start)
        if base_1 + length_1 < base_2 + length_2:
            i += 1
        else:
            j += 1


def _matches(base: list[bytes], side: list[bytes]) -> list[tuple[int, int, int]]:
    """Blocks of equal lines, in order: position in `base`, position in `side`, and length."""
    shorter = min(len(base), len(side))
    head = 0
    while head < shorter and base[head] == side[head]:
        head += 1
    tail = 0
    while tail < shorter - head and base[-1 - tail] == side[-1 - tail]:
        tail += 1
    base_middle, side_middle = base[head : len(base) - tail], side[head : len(side) - tail]
    if len(base_middle) + len(side_middle) > MAX_DIFFERING_LINES:
        raise TooManyLines(f"more than {MAX_DIFFERING_LINES} lines differ")
    matcher = difflib.SequenceMatcher(None, base_middle, side_middle, autojunk=False)
    found = [
        (head + base_start, head + side_start, length)
        for base_start, side_start, length in matcher.get_matching_blocks()
    ]
    blocks = [(0, 0, head), *found, (len(base) - tail, len(side) - tail, tail)]
    return [(base_start, side_start, length) for base_start, side_start, length in blocks if length]
