"""What is found of a deployment, check by check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "failed", "limited", "skipped"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    state: State
    """limited: it works, or could not be looked at as people would. skipped: it hangs on another
    that failed."""
    found: str
    advice: str = ""
    """The way out."""


class CheckFailed(Exception):
    """What a check found wrong, and the way out."""

    def __init__(self, found: str, advice: str = "") -> None:
        super().__init__(found)
        self.found = found
        self.advice = advice


class CheckLimited(CheckFailed):
    """It works today."""
