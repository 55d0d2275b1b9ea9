"""Tools for the debugger of a VS Code window, as data: for MCP and for OpenHands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

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

from .editor_tool import EditorTool, text_property

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
        "condition": text_property("Stop only if this expression is true"),
        "hit_condition": text_property("Stop only at these hits, such as 3 or >5"),
        "log_message": text_property("Print this instead of stopping; {expression} is evaluated"),
    },
    "required": ["line"],
    "additionalProperties": False,
}


DEBUG_TOOLS: Final[Sequence[EditorTool]] = (
    EditorTool.of_kind(
        ListDebugConfigurations,
        "List launch configurations",
        "Launch configurations of the workspace, and the types of debugger that VS Code has.",
        {},
        changes=False,
    ),
    EditorTool.of_kind(
        SetBreakpoints,
        "Set breakpoints",
        "Add, remove and list breakpoints. Without arguments, lists all of them.",
        {
            "path": text_property("The file; absolute, or relative to the workspace folder"),
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
    EditorTool.of_kind(
        DebugStart,
        "Start debugging",
        "Run a program in the user's debugger: a launch configuration by its name, or an own "
        "configuration. Set breakpoints first." + _ANSWER,
        {
            "name": text_property("A launch configuration"),
            "configuration": {
                "type": "object",
                "description": 'Instead of a name, such as {"type": "node", "program": "/x/a.js"}',
            },
            "folder": text_property("Name or path of the workspace folder, if there are several"),
            "timeout": _TIMEOUT,
        },
    ),
    EditorTool.of_kind(
        DebugContinue,
        "Continue the program",
        "Let the program in the debugger run. If it runs already, only wait." + _ANSWER,
        {"thread": _THREAD, "timeout": _TIMEOUT},
    ),
    EditorTool.of_kind(
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
    EditorTool.of_kind(
        DebugPause,
        "Pause the program",
        "Stop the program in the debugger where it is." + _ANSWER,
        {"thread": _THREAD, "timeout": _TIMEOUT},
    ),
    EditorTool.of_kind(
        DebugState,
        "Look at the program",
        "Where the program in the debugger is: threads, stack, and the source lines and variables "
        "of a frame, and its output since the last answer.",
        {"thread": _THREAD, "frame": _FRAME},
        changes=False,
    ),
    EditorTool.of_kind(
        DebugEvaluate,
        "Evaluate an expression",
        "Evaluate an expression in the program that the debugger has stopped.",
        {
            "expression": text_property("In the language of the program"),
            "frame": _FRAME,
            "thread": _THREAD,
        },
        ("expression",),
    ),
    EditorTool.of_kind(
        DebugSetVariable,
        "Set a variable",
        "Assign a value to a variable of the program that the debugger has stopped.",
        {
            "name": text_property("The variable"),
            "value": text_property("An expression in the language of the program"),
            "frame": _FRAME,
            "thread": _THREAD,
        },
        ("name", "value"),
    ),
    EditorTool.of_kind(
        DebugStop,
        "End debugging",
        "End the program in the debugger, or start it again.",
        {
            "restart": {"type": "boolean", "default": False, "description": "Start it again"},
            "timeout": _TIMEOUT,
        },
    ),
)
