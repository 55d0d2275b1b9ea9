"""Actions on the tasks and terminals of an editor window, and their observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from .actions import Action
from .event_class import event_class
from .observations import Observation


@event_class()
class ListTasks(Action):
    """List the tasks that VS Code knows: those of `tasks.json`, and those that it detects."""

    kind: ClassVar[str] = "list_tasks"

    query: str = ""
    """Only tasks whose name or command contains this text."""
    offset: int = 0
    """How many tasks to skip, to read the next part of a long list."""
    limit: int = 100
    thought: str = ""


@event_class()
class RunTask(Action):
    """Run a task. The answer comes when it ends, or at the `timeout`; then the task runs on."""

    kind: ClassVar[str] = "run_task"

    name: str
    """The task's name, as listed."""
    folder: str = ""
    """Name or path of the workspace folder, if several have a task of this name."""
    output_limit: int = 8000
    """Characters of output in the answer; the middle of a longer output is left out."""
    thought: str = ""


@event_class()
class StopTask(Action):
    """End a running task."""

    kind: ClassVar[str] = "stop_task"

    name: str
    folder: str = ""
    thought: str = ""


@event_class()
class ListRunning(Action):
    """List what still runs: tasks, terminals, and programs in the shells of agents."""

    kind: ClassVar[str] = "list_running"

    thought: str = ""


@event_class()
class ReadTerminal(Action):
    """Read what a terminal of the user prints from the moment at which the user agreed.

    Later calls return what was printed since the last one. They wait for output until `timeout`.
    """

    kind: ClassVar[str] = "read_terminal"

    terminal: str
    """Its name or process id, as listed by `list_running`."""
    output_limit: int = 8000
    """Characters in the answer; the middle of a longer output is left out."""
    thought: str = ""


@event_class(kw_only=True)
class TaskList(Observation):
    """Tasks of the window. `content` has one line for each."""

    kind: ClassVar[str] = "list_tasks"

    items: Sequence[Mapping[str, Any]] = ()
    """Each: name, source, folder, command, cwd, detail, group, depends_on, is_background,
    is_running."""
    total: int = 0
    """All tasks that fit, also those left out by `offset` and `limit`."""
    truncated: bool = False


TaskState = Literal["ended", "running", "stopped"]


@event_class(kw_only=True)
class TaskReport(Observation):
    """What a task did. `content` has its state, the problems that it found, and its output."""

    kind: ClassVar[str] = "task"

    name: str
    state: TaskState
    """`stopped`: the task was ended by `stop_task` or the user before its process ended."""
    exit_code: int | None = None
    """None: it still runs, or VS Code does not know it."""
    problems: Sequence[Mapping[str, Any]] = ()
    """What the task's problem matchers found. Each: path, line, column, severity, message, source,
    code."""
    output: str | None = None
    """Without the sequences that control a terminal. None: VS Code does not hand it out."""
    duration: float = 0.0
    """Seconds from the start until the answer."""
    truncated: bool = False
    """Whether problems or output were left out."""


@event_class(kw_only=True)
class RunningList(Observation):
    """What runs in the window. `content` has one line for each."""

    kind: ClassVar[str] = "list_running"

    items: Sequence[Mapping[str, Any]] = ()
    """Each: type (`task`, `terminal`, `shell` or `program`), name, pid, command, agent, state."""
    truncated: bool = False


@event_class(kw_only=True)
class TerminalText(Observation):
    """What a terminal printed since the user agreed, or since the last call."""

    kind: ClassVar[str] = "read_terminal"

    terminal: str
    commands: Sequence[Mapping[str, Any]] = ()
    """Commands seen since then. Each: command, cwd, exit_code (None while it runs, or unknown)."""
    truncated: bool = False
    """Whether output was left out."""


TASK_ACTIONS: Sequence[type[Action]] = (ListTasks, RunTask, StopTask, ListRunning, ReadTerminal)
TASK_OBSERVATIONS: Sequence[type[Observation]] = (TaskList, TaskReport, RunningList, TerminalText)
