"""Tools for the debugger of a VS Code window, as data: for MCP and for OpenHands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bascule.core.actions import Action
from bascule.core.editor_actions import (
    DebugContinue,
    DebugEvaluate,
    DebugPause,
    DebugSetVariable,
    DebugStart,
    DebugState,
    DebugStep,
    DebugStop,
    ListDebugConfigurations,
    SetBreakpoints,
)

from .editor_tool import Arguments, EditorTool


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


_FRAME: Final = {
    "type": "integer",
    "minimum": 0,
    "default": 0,
    "description": "Frame of the stack; 0 is its top",
}
_THREAD: Final = {
    "type": "integer",
    "description": "Id of a thread; by default the one that stopped last",
}
_TIMEOUT: Final = {
    "type": "number",
    "exclusiveMinimum": 0,
    "description": "Seconds to wait for the next stop; then the program is still running",
}
_ANSWER: Final = " Answers at the next stop or the end: reason, source lines, stack and variables."
_BREAKPOINT: Final = {
    "type": "object",
    "properties": {
        "line": {"type": "integer", "minimum": 1},
        "condition": _text("Stop only if this expression is true"),
        "hit_condition": _text("Stop only at these hits, such as 3 or >5"),
        "log_message": _text("Print this instead of stopping; {expression} is evaluated"),
    },
    "required": ["line"],
    "additionalProperties": False,
}


def _tool(
    kind: type[Action],
    title: str,
    description: str,
    properties: Mapping[str, Any],
    required: Sequence[str] = (),
    *,
    changes: bool = True,
) -> EditorTool:
    def action(arguments: Arguments) -> Action:
        return kind(**arguments)

    return EditorTool(
        name=kind.kind,
        title=title,
        description=description,
        properties=properties,
        required=required,
        kind=kind,
        action=action,
        changes_files=changes,
    )


DEBUG_TOOLS: Final[Sequence[EditorTool]] = (
    _tool(
        ListDebugConfigurations,
        "List launch configurations",
        "Launch configurations of the workspace, and the types of debugger that VS Code has.",
        {},
        changes=False,
    ),
    _tool(
        SetBreakpoints,
        "Set breakpoints",
        "Add, remove and list breakpoints. Without arguments, lists all of them.",
        {
            "path": _text("The file; absolute, or relative to the workspace folder"),
            "add": {"type": "array", "items": _BREAKPOINT, "description": "Breakpoints to add"},
            "remove": {
                "type": "array",
                "items": {"type": "integer"},
                "description": "Lines whose breakpoints are removed",
            },
            "clear": {
                "type": "boolean",
                "default": False,
                "description": "First remove the breakpoints that agents set",
            },
            "exceptions": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Stop at these exceptions, such as uncaught or raised",
            },
        },
    ),
    _tool(
        DebugStart,
        "Start debugging",
        "Run a program in the user's debugger: a launch configuration by its name, or an own "
        "configuration. Set breakpoints first." + _ANSWER,
        {
            "name": _text("A launch configuration"),
            "configuration": {
                "type": "object",
                "description": 'Instead of a name, such as {"type": "node", "program": "/x/a.js"}',
            },
            "folder": _text("Name or path of the workspace folder, if there are several"),
            "timeout": _TIMEOUT,
        },
    ),
    _tool(
        DebugContinue,
        "Continue the program",
        "Let the program in the debugger run. If it runs already, only wait." + _ANSWER,
        {"thread": _THREAD, "timeout": _TIMEOUT},
    ),
    _tool(
        DebugStep,
        "Execute one line",
        "Execute one line of the program in the debugger." + _ANSWER,
        {
            "step": {
                "type": "string",
                "enum": ["over", "into", "out"],
                "default": "over",
                "description": "over calls, into a call, or out of the function",
            },
            "thread": _THREAD,
            "timeout": _TIMEOUT,
        },
    ),
    _tool(
        DebugPause,
        "Pause the program",
        "Stop the program in the debugger where it is." + _ANSWER,
        {"thread": _THREAD, "timeout": _TIMEOUT},
    ),
    _tool(
        DebugState,
        "Look at the program",
        "Where the program in the debugger is: threads, stack, and the source lines and variables "
        "of a frame, and its output since the last answer.",
        {"thread": _THREAD, "frame": _FRAME},
        changes=False,
    ),
    _tool(
        DebugEvaluate,
        "Evaluate an expression",
        "Evaluate an expression in the program that the debugger has stopped.",
        {
            "expression": _text("In the language of the program"),
            "frame": _FRAME,
            "thread": _THREAD,
        },
        ("expression",),
    ),
    _tool(
        DebugSetVariable,
        "Set a variable",
        "Assign a value to a variable of the program that the debugger has stopped.",
        {
            "name": _text("The variable"),
            "value": _text("An expression in the language of the program"),
            "frame": _FRAME,
            "thread": _THREAD,
        },
        ("name", "value"),
    ),
    _tool(
        DebugStop,
        "End debugging",
        "End the program in the debugger, or start it again.",
        {
            "restart": {"type": "boolean", "default": False, "description": "Start it again"},
            "timeout": _TIMEOUT,
        },
    ),
)
