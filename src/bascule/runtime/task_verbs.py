"""Convenience methods for the tasks and terminals of a VS Code window."""

from __future__ import annotations

from bascule.core.task_events import (
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

from .verbs import Verbs


class TaskVerbs(Verbs):
    """`Verbs`, and methods for the tasks of the window, and for what runs in it."""

    async def list_tasks(
        self, query: str = "", *, offset: int = 0, limit: int = 100, timeout: float | None = None
    ) -> TaskList:
        """The tasks of `tasks.json`, and those that VS Code detects, such as npm scripts."""
        action = ListTasks(query, offset, limit, timeout=timeout)
        return await self._do(action, TaskList)

    async def run_task(
        self,
        name: str,
        *,
        folder: str = "",
        output_limit: int = 8000,
        timeout: float | None = None,
    ) -> TaskReport:
        """Run a task and wait for its end. After `timeout` (without it, 60 seconds) it runs on.

        A failed task is a result, not an error: see `exit_code` and `problems`.
        """
        action = RunTask(name, folder, output_limit, timeout=timeout)
        return await self._do(action, TaskReport)

    async def stop_task(
        self, name: str, *, folder: str = "", timeout: float | None = None
    ) -> TaskReport:
        """End a running task, also one of the user."""
        return await self._do(StopTask(name, folder, timeout=timeout), TaskReport)

    async def list_running(self) -> RunningList:
        """Running tasks, terminals, and programs in the shells of agents."""
        return await self._do(ListRunning(), RunningList)

    async def read_terminal(
        self, terminal: str, *, output_limit: int = 8000, timeout: float | None = None
    ) -> TerminalText:
        """What a terminal printed since the user agreed, or since the last call.

        `terminal` is a name or process id. Without `timeout` it returns at once; with it, it waits
        for output.
        """
        action = ReadTerminal(terminal, output_limit, timeout=timeout)
        return await self._do(action, TerminalText)
