"""Rules for commands: decide whether a command text is allowed, needs approval, or is denied.

Names are imported on first use, so that a module of the package can be used without the parser.
"""

from typing import TYPE_CHECKING

from bascule.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .command_context import CommandContext
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
]

_MODULES = {
    "CommandContext": "command_context",
    "CommandVerdict": "verdict",
    "Decision": "verdict",
    "Parser": "parser",
    "Part": "verdict",
    "Rule": "rule",
    "Rules": "rule",
}

__getattr__ = lazy_exports(__name__, _MODULES)
