"""Replays a recorded trajectory and reports the differences."""

from .observation_diff import Difference
from .player import StepOutcome, Verdict, play
from .script import InvalidTrajectory, Script, Step, read_script

__all__ = [
    "Difference",
    "InvalidTrajectory",
    "Outcome",
    "Script",
    "Step",
    "StepOutcome",
    "Verdict",
    "play",
    "read_script",
]

Outcome = StepOutcome  # the name in version 0.1
