"""Files of ignore rules with many lines."""

from __future__ import annotations

import time

from bascule.core.ignore_rules import parse_rules


def test_many_lines_do_not_stop_the_process() -> None:
    """A match holds Python's global lock, and its time grew with the square of the lines."""
    rules = parse_rules("".join(f"name{number}\n" for number in range(40_000)))
    assert rules is not None
    began = time.thread_time()
    rules.verdict("src/hello", is_directory=False)
    assert time.thread_time() - began < 0.5


def test_the_last_of_many_lines_decides() -> None:
    rules = parse_rules("x\n" + "y\n" * 100 + "!x\n" + "z\n" * 100)
    assert rules is not None
    assert rules.verdict("x", is_directory=False) is False
    assert rules.verdict("y", is_directory=False) is True
    assert rules.verdict("other", is_directory=True) is None
