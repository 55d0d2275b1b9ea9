"""The tasks and terminals of a VS Code window for synchronous code."""

from __future__ import annotations

from bascule.core.task_events import RunningList, TaskList, TaskReport, TerminalText

from .sync import SyncRuntime
from .task_verbs import TaskVerbs


class SyncTasks(SyncRuntime):
    """`SyncRuntime` with the methods of `TaskVerbs`."""

    _window: TaskVerbs

    def list_tasks(
        self, query: str = "", *, offset: int = 0, limit: int = 100, timeout: float | None = None
    ) -> TaskList:
        return self._wait(
            self._window.list_tasks(query, offset=offset, limit=limit, timeout=timeout)
        )

    def run_task(
        self,
        name: str,
        *,
        folder: str = "",
        output_limit: int = 8000,
        timeout: float | None = None,
    ) -> TaskReport:
        return self._wait(
            self._window.run_task(name, folder=folder, output_limit=output_limit, timeout=timeout)
        )

    def stop_task(self, name: str, *, folder: str = "", timeout: float | None = None) -> TaskReport:
        return self._wait(self._window.stop_task(name, folder=folder, timeout=timeout))

    def list_running(self) -> RunningList:
        return self._wait(self._window.list_running())

    def read_terminal(
        self, terminal: str, *, output_limit: int = 8000, timeout: float | None = None
    ) -> TerminalText:
        return self._wait(
            self._window.read_terminal(terminal, output_limit=output_limit, timeout=timeout)
        )
