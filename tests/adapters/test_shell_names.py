"""Conversations at the same time have a shell each, and names are used again."""

from __future__ import annotations

from bascule.adapters.shell_names import ShellNames


def test_the_first_has_the_default_shell_and_the_others_their_own() -> None:
    names = ShellNames()

    assert [names.take() for _ in range(3)] == ["", "openhands-2", "openhands-3"]


def test_a_name_that_was_given_back_is_the_next_to_be_taken() -> None:
    names = ShellNames()
    first, second, _ = (names.take() for _ in range(3))
    names.release(second)
    names.release(first)

    assert [names.take(), names.take(), names.take()] == ["", "openhands-2", "openhands-4"]
