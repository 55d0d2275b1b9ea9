"""Makes a text of a rule (its words, reason or origin) safe to show in reports."""

from __future__ import annotations

from typing import Final

from bascule.core.visible_text import visible

_MAX_LENGTH: Final = 200
"""Maximum characters."""


def rule_text(text: str) -> str:
    return visible(text)[:_MAX_LENGTH]
