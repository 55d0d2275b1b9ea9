"""Tools for the tests of a VS Code window, as data: for MCP and OpenHands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bascule.core.actions import Action
from bascule.core.agent_test_actions import GetTestResults, ListTests, RunTests

from .editor_tool import Arguments, EditorTool


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _count(description: str, minimum: int = 0) -> dict[str, Any]:
    return {"type": "integer", "minimum": minimum, "description": description}


_COMMAND_NAME: Final = _text("Name of the test command, if the workspace has several")
_TIMEOUT: Final = {
    "type": "number",
    "exclusiveMinimum": 0,
    "description": "Seconds after which the command is ended; by default 600",
}
_OFFSET: Final = _count("How many to skip, to read the next part of a long list")
_LIMIT: Final = _count("Maximum number in the answer", 1)


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


AGENT_TEST_TOOLS: Final[Sequence[EditorTool]] = (
    _tool(
        ListTests,
        "List tests",
        "List the tests of the workspace, with `path:line` and the id that run_tests takes. This "
        "runs the test program (pytest, Vitest, go test), which only collects the tests.",
        {
            "path": _text("Only this file or directory"),
            "name": _COMMAND_NAME,
            "offset": _OFFSET,
            "limit": _LIMIT,
            "timeout": _TIMEOUT,
        },
    ),
    _tool(
        RunTests,
        "Run tests",
        "Run tests and answer with the numbers and, for each test that did not pass, its message "
        "and `path:line`. Without arguments, runs all tests. Call this instead of run_command.",
        {
            "path": _text("Only the tests of this file or directory"),
            "tests": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Only these tests, by id, such as tests/test_a.py::test_one",
            },
            "failed": {
                "type": "boolean",
                "default": False,
                "description": "Only the tests that failed in your last run",
            },
            "name": _COMMAND_NAME,
            "limit": _LIMIT,
            "timeout": _TIMEOUT,
        },
    ),
    _tool(
        GetTestResults,
        "Results of the last run",
        "Results of your last run_tests, without running anything: those that the answer left out, "
        "or those that passed.",
        {
            "outcome": {
                "type": "string",
                "enum": ["passed", "failed", "error", "skipped"],
                "description": "Only results with this outcome",
            },
            "query": _text("Only tests whose id contains this text"),
            "offset": _OFFSET,
            "limit": _LIMIT,
        },
        changes=False,
    ),
)
