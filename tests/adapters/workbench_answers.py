"""Answers of the fake window to actions on tasks, terminals, git and the view."""

from __future__ import annotations

from bascule.core.actions import Action
from bascule.core.git_events import (
    GIT_ACTIONS,
    GetGitDiff,
    GetGitStatus,
    GitCommit,
    GitDiff,
    GitStage,
    GitStatus,
    GitUnstage,
)
from bascule.core.observations import Observation
from bascule.core.task_events import (
    TASK_ACTIONS,
    ListRunning,
    ListTasks,
    ReadTerminal,
    RunningList,
    RunTask,
    StopTask,
    TaskList,
    TaskReport,
    TerminalText,
)
from bascule.core.view_events import (
    VIEW_ACTIONS,
    ListOpenEditors,
    ListPorts,
    OpenEditors,
    OpenPorts,
    Screenshot,
    TakeScreenshot,
)

WORKBENCH_KINDS = frozenset(kind.kind for kind in (*TASK_ACTIONS, *GIT_ACTIONS, *VIEW_ACTIONS))


def workbench_answer(action: Action) -> Observation | None:
    """None for other kinds of actions."""
    match action:
        case ListTasks():
            return TaskList(content="build: make", items=[{"name": "build"}], cause=action.id)
        case RunTask(name=name):
            text = f"'{name}' ended with exit code 0"
            return TaskReport(content=text, name=name, state="ended", exit_code=0, cause=action.id)
        case StopTask(name=name):
            text = f"'{name}' was stopped"
            return TaskReport(content=text, name=name, state="stopped", cause=action.id)
        case ListRunning():
            return RunningList(content="task build", cause=action.id)
        case ReadTerminal(terminal=terminal):
            return TerminalText(content="$ make", terminal=terminal, cause=action.id)
        case GetGitStatus() | GitStage() | GitUnstage() | GitCommit():
            text = f"On branch main, {action.kind}"
            return GitStatus(content=text, repository="/w", branch="main", cause=action.id)
        case GetGitDiff(path=path):
            return GitDiff(content=f"diff of {path}", repository="/w", cause=action.id)
        case ListOpenEditors():
            return OpenEditors(content="sums.py:1 (active)", cause=action.id)
        case ListPorts():
            return OpenPorts(content="port 8000", cause=action.id)
        case TakeScreenshot():
            pixel = "data:image/png;base64,iVBORw0KGgo="
            return Screenshot(content="A picture", image_url=pixel, cause=action.id)
    return None
