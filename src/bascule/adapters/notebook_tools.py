"""Tools for the notebooks of a VS Code window, as data: for MCP and for OpenHands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bascule.core.notebook_events import EditCells, ReadCells, RunCells

from .editor_tool import EditorTool

_PATH: Final = {
    "type": "string",
    "description": "The .ipynb file; absolute, or relative to the workspace folder",
}
_OUTPUT_LIMIT: Final = {
    "type": "integer",
    "minimum": 0,
    "default": 4000,
    "description": "Characters of text output per cell; the middle of longer output is left out",
}
_RUN_SECONDS: Final = 120.0


def _numbers(description: str) -> dict[str, Any]:
    return {
        "type": "array",
        "items": {"type": "integer", "minimum": 1},
        "description": description,
    }


_EDIT: Final = {
    "type": "object",
    "properties": {
        "op": {"type": "string", "enum": ["insert", "edit", "delete", "move"]},
        "cell": {"type": "integer", "minimum": 1, "description": "Number of the cell, from 1"},
        "source": {"type": "string", "description": "insert, edit: the whole text of the cell"},
        "old": {"type": "string", "description": "edit: text that occurs once in the cell"},
        "new": {"type": "string", "description": "edit: text that replaces old"},
        "kind": {"type": "string", "enum": ["code", "markdown"], "description": "insert"},
        "language": {"type": "string", "description": "insert; by default that of other cells"},
        "to": {"type": "integer", "minimum": 1, "description": "move: the new number"},
    },
    "required": ["op", "cell"],
    "additionalProperties": False,
}

NOTEBOOK_TOOLS: Final[Sequence[EditorTool]] = (
    EditorTool(
        name="read_cells",
        title="Read notebook cells",
        description="Read the cells of a Jupyter notebook with their outputs, as VS Code has them, "
        "saved or not.",
        properties={
            "path": _PATH,
            "cells": _numbers("Numbers of cells, from 1; by default all"),
            "offset": {
                "type": "integer",
                "minimum": 0,
                "default": 0,
                "description": "Cells to skip",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "default": 50,
                "description": "Maximum number of cells",
            },
            "outputs": {"type": "boolean", "default": True, "description": "With outputs"},
            "output_limit": _OUTPUT_LIMIT,
        },
        required=("path",),
        kind=ReadCells,
        action=lambda arguments: ReadCells(**arguments),
    ),
    EditorTool(
        name="edit_cells",
        title="Edit notebook cells",
        description="Insert, edit, delete and move cells of a Jupyter notebook in VS Code. One "
        "undo takes the change back. The file is saved, unless the user has unsaved changes in it.",
        properties={
            "path": _PATH,
            "edits": {
                "type": "array",
                "items": _EDIT,
                "minItems": 1,
                "description": "One after the other; each counts the cells as the edits before it "
                "left them",
            },
        },
        required=("path", "edits"),
        kind=EditCells,
        action=lambda arguments: EditCells(**arguments),
        changes_files=True,
    ),
    EditorTool(
        name="run_cells",
        title="Run notebook cells",
        description="Run code cells of a Jupyter notebook in VS Code with the kernel that the user "
        "chose, and return their outputs. It stops at the first cell that fails.",
        properties={
            "path": _PATH,
            "cells": _numbers("Numbers of code cells, from 1; by default all"),
            "output_limit": _OUTPUT_LIMIT,
            "wait": {
                "type": "number",
                "exclusiveMinimum": 0,
                "maximum": 3600,
                "default": _RUN_SECONDS,
                "description": "Seconds after which the cells are interrupted",
            },
        },
        required=("path",),
        kind=RunCells,
        action=lambda arguments: RunCells(
            arguments["path"],
            cells=arguments.get("cells", ()),
            output_limit=arguments.get("output_limit", 4000),
            timeout=arguments.get("wait", _RUN_SECONDS),
        ),
        changes_files=True,
    ),
)
