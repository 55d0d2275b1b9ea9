"""Diffs that, applied to the old text, give the new one."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.sandbox.files import diff as diff_module
from bascule.sandbox.files.diff import unified_diff

texts = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "a", "\u2028"]), max_size=10).map(
    "".join
)
HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def patched(old: str, diff: str) -> str:
    """Apply a diff without context, the way `patch` does."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", old)
    out: list[str] = []
    at = 0
    for line in diff.split("\n")[2:]:
        hunk = HUNK.fullmatch(line)
        if hunk:
            start, count = int(hunk[1]), int(hunk[2] or 1)
            out += lines[at : start - (count > 0)]
            at = start - (count > 0) + count
        elif line.startswith("+"):
            out.append(line[1:] + "\n")
            last = "+"
        elif line.startswith("-"):
            last = "-"
        elif line.startswith("\\") and last == "+":
            out[-1] = out[-1][:-1]
    return "".join(out + lines[at:])


@given(texts, texts, st.integers(1, 4))
def test_a_diff_turns_the_old_text_into_the_new_one(old: str, new: str, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diff_module, "_BLOCK", block)
        diff = unified_diff(old, new, "f")

    assert (diff == "") is (old == new)
    if diff:
        assert diff.startswith("--- f\n+++ f\n@@ ")
        assert patched(old, diff) == new


@given(texts, texts)
def test_a_change_too_large_to_match_is_one_hunk(old: str, new: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diff_module, "_MAX_MATCHED", 0)
        diff = unified_diff(old, new, "f")

    if diff:
        assert len(HUNK.findall(diff)) == 1
        assert patched(old, diff) == new


def test_a_diff_shows_only_what_changed() -> None:
    assert unified_diff("1\n2\n3\n4\n5\n", "1\n2\nthree\n4\n5\n6", "f") == (
        "--- f\n+++ f\n@@ -3 +3 @@\n-3\n+three\n@@ -5,0 +6 @@\n+6\n\\ No newline at end of file"
    )


def test_a_small_change_of_a_large_text_is_found_at_once() -> None:
    lines = [f"line {n}\n" for n in range(300_000)]
    old = "".join(lines)
    lines[150_000] = "changed\n"

    begin = time.perf_counter()
    diff = unified_diff(old, "".join(lines), "f")

    assert diff.split("\n")[2:] == ["@@ -150001 +150001 @@", "-line 150000", "+changed"]
    assert time.perf_counter() - begin < 1
