"""Results of the checks of a deployment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "failed", "limited", "skipped"]


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    name: str
    state: State
    """limited: it works, or could not be looked at as people would. skipped: it hangs on another
    that failed."""
    found: str
    advice: str = ""
    """The way out."""


class CheckFailed(Exception):
    """Raised by a check: what is wrong, and how to fix it."""

    def __init__(self, found: str, advice: str = "") -> None:
        super().__init__(found)
        self.found = found
        self.advice = advice


class CheckLimited(CheckFailed):
    """Raised by a check that works, but with a limitation."""
