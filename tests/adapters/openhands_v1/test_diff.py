"""Taking a change back gives what was there before it."""

from __future__ import annotations

import random

from bascule.adapters.openhands_v1._diff import revert
from bascule.sandbox.files.diff import unified_diff

LINES = ["a\n", "b\n", "\n", "-x\n", "+\n", "@@ -1 +1 @@\n", "--- a\n"]


def test_undoing_a_change_restores_the_previous_text() -> None:
    dice = random.Random(7)
    for _ in range(2000):
        old, new = (
            "".join(dice.choices(LINES, k=dice.randrange(8))) + dice.choice(["", "a", "-"])
            for _ in range(2)
        )
        assert revert(new, unified_diff(old, new, "/path")) == old


def test_a_diff_of_another_text_cannot_be_undone() -> None:
    assert revert("x\ny\n", unified_diff("a\n", "b\n", "/path")) is None
