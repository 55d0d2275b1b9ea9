"""Tools for the tests of a VS Code window, as data: for MCP and OpenHands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bascule.core.agent_test_actions import GetTestResults, ListTests, RunTests

from .editor_tool import EditorTool, count_property, text_property

_COMMAND_NAME: Final = text_property("Name of the test command, if the workspace has several")
_TIMEOUT: Final = {
    "type": "number",
    "exclusiveMinimum": 0,
    "description": "Seconds after which the command is ended; by default 600",
}
_OFFSET: Final = count_property("How many to skip, to read the next part of a long list", 0)
_LIMIT: Final = count_property("Maximum number in the answer")


AGENT_TEST_TOOLS: Final[Sequence[EditorTool]] = (
    EditorTool.of_kind(
        ListTests,
        "List tests",
        "List the tests of the workspace, with `path:line` and the id that run_tests takes. This "
        "runs the test program (pytest, Vitest, go test), which only collects the tests.",
        {
            "path": text_property("Only this file or directory"),
            "name": _COMMAND_NAME,
            "offset": _OFFSET,
            "limit": _LIMIT,
            "timeout": _TIMEOUT,
        },
    ),
    EditorTool.of_kind(
        RunTests,
        "Run tests",
        "Run tests and answer with the numbers and, for each test that did not pass, its message "
        "and `path:line`. Without arguments, runs all tests. Call this instead of run_command.",
        {
            "path": text_property("Only the tests of this file or directory"),
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
    EditorTool.of_kind(
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
            "query": text_property("Only tests whose id contains this text"),
            "offset": _OFFSET,
            "limit": _LIMIT,
        },
        changes=False,
    ),
)
