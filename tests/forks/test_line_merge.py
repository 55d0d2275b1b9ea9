"""Lines of a base, ours and theirs are merged as a person would, and every conflict is named."""

from __future__ import annotations

import random

import pytest

from bascule.forks.line_merge import (
    MAX_DIFFERING_LINES,
    LineRange,
    TooManyLines,
    merge_lines,
    split_lines,
)


def text(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


BASE = text("one", "two", "three", "four", "five")


def test_changes_of_different_lines_are_both_taken() -> None:
    ours = text("one", "TWO", "three", "four", "five")
    theirs = text("one", "two", "three", "five", "six")
    assert merge_lines(BASE, ours, theirs).content == text("one", "TWO", "three", "five", "six")


def test_the_same_change_on_both_sides_is_taken_once() -> None:
    both = text("one", "two", "three", "new", "four", "five")
    assert merge_lines(BASE, both, both).content == both
    more = text("zero", "one", "two", "three", "new", "four", "five")
    assert merge_lines(BASE, both, more).content == more


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (text("one", "2", "three", "four", "five"), text("one", "zwei", "three", "four", "five")),
        # Adjacent lines: nothing unchanged is between them.
        (text("one", "2", "three", "four", "five"), text("one", "two", "3", "four", "five")),
        # Two insertions at one place have no order.
        (
            text("one", "a", "two", "three", "four", "five"),
            text("one", "b", "two", "three", "four", "five"),
        ),
        # One side removed what the other changed.
        (text("one", "three", "four", "five"), text("one", "TWO", "three", "four", "five")),
    ],
)
def test_different_changes_of_the_same_region_are_a_conflict(ours: bytes, theirs: bytes) -> None:
    merged = merge_lines(BASE, ours, theirs)
    assert merged.content is None
    assert len(merged.conflicts) == 1


def test_a_conflict_names_the_lines_of_all_three_versions() -> None:
    ours = text("zero", "one", "two", "three", "4", "five")
    theirs = text("one", "two", "three", "vier", "five", "six")
    (conflict,) = merge_lines(BASE, ours, theirs).conflicts
    assert conflict.base == LineRange(3, 4)
    assert conflict.ours == LineRange(4, 5)
    assert conflict.theirs == LineRange(3, 4)


def test_line_endings_and_a_missing_final_newline_are_kept() -> None:
    assert split_lines(b"") == []
    assert split_lines(b"a\r\nb") == [b"a\r\n", b"b"]
    assert merge_lines(b"a\r\nb\r\nc", b"A\r\nb\r\nc", b"a\r\nb\r\nc\n").content == b"A\r\nb\r\nc\n"
    assert merge_lines(b"a\nb", b"a\nb\nours", b"a\nb\ntheirs").content is None
    assert merge_lines(b"", b"a\n", b"").content == b"a\n"


def test_too_many_different_lines_are_refused_before_they_are_compared() -> None:
    lines = b"".join(b"%d\n" % number for number in range(MAX_DIFFERING_LINES))
    with pytest.raises(TooManyLines):
        merge_lines(lines, lines.replace(b"1", b"x"), lines + b"more\n")


class Edited:
    """A version whose history is known: which lines of the base it removed and which it added."""

    def __init__(self, base: list[str], name: str, source: random.Random) -> None:
        self.lines = list(base)
        self.added: set[str] = set()
        self.removed: set[str] = set()
        for number in range(source.randrange(6)):
            at = source.randrange(len(self.lines) + 1)
            if source.random() < 0.6 or at == len(self.lines):
                self.lines.insert(at, f"{name}{number}")
                self.added.add(f"{name}{number}")
            else:
                gone = self.lines.pop(at)
                self.added.discard(gone)
                if gone in base:
                    self.removed.add(gone)


@pytest.mark.parametrize("seed", range(20))
def test_no_line_is_lost_in_random_merges(seed: int) -> None:
    """Without a conflict the result has exactly the lines that the histories say, in order."""
    source = random.Random(seed)
    merged = conflicts = 0
    for _ in range(200):
        base = [f"base{number}" for number in range(source.randrange(12))]
        ours, theirs = Edited(base, "ours", source), Edited(base, "theirs", source)
        result = merge_lines(text(*base), text(*ours.lines), text(*theirs.lines))
        mirrored = merge_lines(text(*base), text(*theirs.lines), text(*ours.lines))
        assert result.content == mirrored.content
        if result.content is None:
            conflicts += 1
            for each in result.conflicts:
                there = base[slice(*each.base)]
                assert ours.lines[slice(*each.ours)] != there
                assert theirs.lines[slice(*each.theirs)] != there
            continue
        merged += 1
        found = result.content.decode().splitlines()
        expected = (set(base) - ours.removed - theirs.removed) | ours.added | theirs.added
        assert sorted(found) == sorted(expected)
        for version in (base, ours.lines, theirs.lines):
            kept = [line for line in version if line in expected]
            assert [line for line in found if line in set(kept)] == kept
    assert merged > 20
    assert conflicts > 20


@pytest.mark.parametrize("seed", range(10))
def test_a_change_on_one_side_only_is_taken_unchanged(seed: int) -> None:
    """Also with repeated lines, whose matching is ambiguous."""
    source = random.Random(seed)
    for _ in range(200):
        base, other = (
            b"".join(
                source.choice([b"a\n", b"b\n", b"\n", b"c"]) for _ in range(source.randrange(9))
            )
            for _ in range(2)
        )
        assert merge_lines(base, base, other).content == other
        assert merge_lines(base, other, base).content == other
        assert merge_lines(base, other, other).content == other
