"""What `make test-fresh` says a person saw."""

from __future__ import annotations

import pytest

from tests.fresh.screen import Screen


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ("one\r\ntwo\r\n", "one\ntwo\n"),
        ("12%\r\x1b[K40%\r\x1b[Kdone\r\n", "done\n"),
        ("a\r\nb\r\x1b[2K\x1b[1A\x1b[2Kc\r\n", "c\n"),
        ("\x1b[32m✓\x1b[0m made\x1b[?25l", "✓ made"),
        ("\x1b]0;title\x07longer\rsh", "shnger"),
    ],
)
def test_overwritten_text_is_removed_from_the_screen(written: str, left: str) -> None:
    whole, pieces = Screen(), Screen()
    whole.show(written)
    for each in written:
        pieces.show(each)

    assert str(whole) == str(pieces) == left


def test_printed_screen_output_keeps_overwritten_lines() -> None:
    screen = Screen()

    assert screen.show("12%\r\x1b[K40%\r\n") == "12%\n40%\n"
