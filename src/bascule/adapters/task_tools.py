"""Tools for the tasks and terminals of a VS Code window, as data: for MCP and OpenHands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bascule.core.task_events import ListRunning, ListTasks, ReadTerminal, RunTask, StopTask

from .editor_tool import EditorTool, count_property, text_property


def _seconds(description: str) -> dict[str, Any]:
    return {
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": 3600,
        "description": description,
    }


_NAME: Final = text_property("Name of the task, as list_tasks has it")
_FOLDER: Final = text_property("Workspace folder, if several have a task of this name")
_OUTPUT_LIMIT: Final = count_property(
    "Characters of output; the middle of longer output is left out", 0, default=8000
)

TASK_TOOLS: Final[Sequence[EditorTool]] = (
    EditorTool.of_kind(
        ListTasks,
        "List tasks",
        "List the tasks that VS Code knows, with what each of them runs: those of tasks.json, and "
        "those that it detects, such as npm scripts.",
        {
            "query": text_property("Only tasks whose name or command contains this"),
            "offset": count_property("How many to skip, to read the next part of a long list", 0),
            "limit": count_property("Maximum number in the answer"),
        },
        changes=False,
    ),
    EditorTool.of_kind(
        RunTask,
        "Run a task",
        "Run a task of VS Code, such as a build. Answers when it ends, with its exit code and, as "
        "`path:line`, the errors and warnings that its problem matchers found. After `timeout` the "
        "task runs on.",
        {
            "name": _NAME,
            "folder": _FOLDER,
            "output_limit": _OUTPUT_LIMIT,
            "timeout": _seconds("Seconds to wait for the end; by default 60"),
        },
        ("name",),
    ),
    EditorTool.of_kind(
        StopTask,
        "Stop a task",
        "End a running task of VS Code.",
        {"name": _NAME, "folder": _FOLDER},
        ("name",),
    ),
    EditorTool.of_kind(
        ListRunning,
        "What still runs",
        "List what runs in the user's VS Code: tasks, terminals, and programs in the shells of "
        "agents, also in the background.",
        {},
        changes=False,
    ),
    EditorTool.of_kind(
        ReadTerminal,
        "Read a terminal of the user",
        "Read what a terminal of the user prints. The user is asked first; only output after that "
        "can be read. Later calls return what was printed since the last one.",
        {
            "terminal": text_property("Name or process id of the terminal, as list_running has it"),
            "output_limit": _OUTPUT_LIMIT,
            "timeout": _seconds("Seconds to wait for output; by default it is not waited for"),
        },
        ("terminal",),
        changes=False,
    ),
)
