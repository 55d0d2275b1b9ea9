"""Playing what was recorded once more, and saying what is different."""

from .observation_diff import Difference
from .player import Outcome, Verdict, play
from .script import InvalidTrajectory, Script, Step, read_script

__all__ = [
    "Difference",
    "InvalidTrajectory",
    "Outcome",
    "Script",
    "Step",
    "Verdict",
    "play",
    "read_script",
]
