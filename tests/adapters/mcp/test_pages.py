from __future__ import annotations

import pytest

from bascule.adapters.mcp._pages import PAGE_CHARACTERS, Pages
from bascule.core.errors import UsageError

LONG = "".join(f"{n:09}\n" for n in range(20_000))


def test_text_within_the_page_size_is_returned_unchanged() -> None:
    assert Pages().fit("x" * PAGE_CHARACTERS, with_tail=True) == "x" * PAGE_CHARACTERS


def test_the_tail_of_program_output_is_included() -> None:
    text = Pages().fit(LONG, with_tail=True)

    assert text.startswith("000000000\n")
    assert text.endswith("000019999\n")
    assert len(text) <= PAGE_CHARACTERS


def test_pages_follow_each_other_without_a_gap() -> None:
    pages = Pages()
    pages.fit(LONG, with_tail=True)

    read, offset = "", 0
    while offset < len(LONG):
        page = pages.read("a1", offset).partition("\n[…")[0]
        read += page
        offset += len(page)

    assert read == LONG


def test_the_oldest_stored_answers_are_evicted_first() -> None:
    pages = Pages(kept=len(LONG) * 2)
    for _ in range(3):
        pages.fit(LONG, with_tail=False)

    with pytest.raises(UsageError, match="'a1'"):
        pages.read("a1", 0)
    assert pages.read("a3", 0)
