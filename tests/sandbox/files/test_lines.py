"""Line arithmetic against the simplest model there is: a list of lines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.sandbox.files import lines as lines_module
from bascule.sandbox.files.lines import count_lines, skip_lines, skip_lines_in_file, slice_lines

texts = st.lists(st.sampled_from(["a", "bc", "\n", "\n\n", "\x0b", "\u2028", "\r"])).map("".join)


def model(text: str) -> list[str]:
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


@given(texts, st.integers(0, 12), st.integers(-1, 12))
def test_slicing_text_matches_slicing_a_list_of_lines(text: str, start: int, end: int) -> None:
    lines = model(text)
    expected = "".join(lines[start:] if end == -1 else lines[start : max(start, end)])

    assert slice_lines(text, start, end) == expected
    assert slice_lines(text.encode(), start, end) == expected.encode()


@given(texts)
def test_line_counts_match_a_list_of_lines(text: str) -> None:
    assert count_lines(text) == len(model(text))


@given(texts, st.integers(0, 30), st.integers(1, 5))
def test_the_block_size_does_not_change_the_result(text: str, count: int, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "_BLOCK_SIZE", block)

        assert skip_lines(text, count) == len("".join(model(text)[:count]))


def test_skipping_lines_in_a_file_matches_skipping_in_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_module, "_READ_BYTES", 7)
    data = b"".join(b"line %d\n" % n for n in range(50)) + b"last"
    (tmp_path / "f").write_bytes(data)
    descriptor = os.open(tmp_path / "f", os.O_RDONLY)
    try:
        for count in (0, 1, 7, 49, 50, 51, 900):
            assert skip_lines_in_file(descriptor, count) == skip_lines(data, count)
        assert skip_lines_in_file(descriptor, 2, start=7) == skip_lines(data, 3)
    finally:
        os.close(descriptor)
