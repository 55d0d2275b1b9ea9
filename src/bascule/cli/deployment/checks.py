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
    """limited: works with limitations, or could not be checked fully. skipped: depends on a failed
    check."""
    found: str
    advice: str = ""
    """How to fix the problem."""


class CheckFailed(Exception):
    """Raised by a check that failed, with the finding and the advice."""

    def __init__(self, found: str, advice: str = "") -> None:
        super().__init__(found)
        self.found = found
        self.advice = advice


class CheckLimited(CheckFailed):
    """Raised by a check that works, but with a limitation."""
