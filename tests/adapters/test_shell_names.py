"""Conversations at the same time have a shell each, and names are used again."""

from __future__ import annotations

from bascule.adapters.shell_names import ShellNames


def test_the_first_conversation_gets_the_default_shell_and_others_a_new_one() -> None:
    names = ShellNames()

    assert [names.take() for _ in range(3)] == ["", "openhands-2", "openhands-3"]


def test_a_released_shell_name_is_reused_next() -> None:
    names = ShellNames()
    first, second, _ = (names.take() for _ in range(3))
    names.release(second)
    names.release(first)

    assert [names.take(), names.take(), names.take()] == ["", "openhands-2", "openhands-4"]
