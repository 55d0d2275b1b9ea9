"""A text of a rule (its words, reason or origin) as reports show it."""

from __future__ import annotations

from typing import Final

from bascule.core.visible_text import visible

_LENGTH: Final = 200
"""Maximum characters."""


def rule_text(text: str) -> str:
    return visible(text)[:_LENGTH]
