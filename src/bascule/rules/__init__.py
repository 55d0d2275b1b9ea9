"""Rules for commands: decide whether a command text is allowed, needs approval, or is denied."""

from .command_context import CommandContext
from .judge import judge
from .parser import Parser
from .rule import Rule, Rules
from .verdict import CommandVerdict, Decision, Part

__all__ = [
    "CommandContext",
    "CommandVerdict",
    "Decision",
    "Parser",
    "Part",
    "Rule",
    "Rules",
    "judge",
]
