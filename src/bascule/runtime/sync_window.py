"""A VS Code window for synchronous code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from bascule.core.editor_observations import (
    BreakpointList,
    DebugConfigurationList,
    DebugSnapshot,
    DebugValue,
    DiffShown,
    FileOpened,
    Selected,
    UserAnswered,
    VscodeCommandDone,
)
from bascule.core.notebook_events import NotebookCells

from .sync_agent_tests import SyncAgentTests
from .sync_git import SyncGit
from .sync_tasks import SyncTasks
from .sync_view import SyncView
from .window_verbs import WindowVerbs


class SyncWindowRuntime(SyncAgentTests, SyncTasks, SyncGit, SyncView):
    """`SyncRuntime` of a `VSCodeRuntime`, with the methods that need an editor and its user."""

    _window: WindowVerbs

    def __init__(self, runtime: WindowVerbs) -> None:
        super().__init__(runtime)
        self._window = runtime

    def selection(self) -> Selected:
        return self._wait(self._window.selection())

    def open_file(
        self, path: str, *, line: int | None = None, column: int | None = None, preview: bool = True
    ) -> FileOpened:
        return self._wait(self._window.open_file(path, line=line, column=column, preview=preview))

    def show_diff(self, path: str, content: str, *, title: str = "") -> DiffShown:
        return self._wait(self._window.show_diff(path, content, title=title))

    def ask_user(
        self,
        question: str,
        *,
        options: Sequence[str] = (),
        default: str = "",
        timeout: float | None = None,
    ) -> UserAnswered:
        return self._wait(
            self._window.ask_user(question, options=options, default=default, timeout=timeout)
        )

    def vscode_command(self, command: str, *arguments: Any) -> VscodeCommandDone:
        return self._wait(self._window.vscode_command(command, *arguments))

    def debug_configurations(self) -> DebugConfigurationList:
        return self._wait(self._window.debug_configurations())

    def set_breakpoints(
        self,
        path: str | None = None,
        *,
        add: Sequence[Mapping[str, Any]] = (),
        remove: Sequence[int] = (),
        clear: bool = False,
        exceptions: Sequence[str] | None = None,
    ) -> BreakpointList:
        return self._wait(
            self._window.set_breakpoints(
                path, add=add, remove=remove, clear=clear, exceptions=exceptions
            )
        )

    def debug_start(
        self,
        name: str = "",
        *,
        configuration: Mapping[str, Any] | None = None,
        folder: str = "",
        timeout: float | None = None,
    ) -> DebugSnapshot:
        return self._wait(
            self._window.debug_start(
                name, configuration=configuration, folder=folder, timeout=timeout
            )
        )

    def debug_continue(
        self, *, thread: int | None = None, timeout: float | None = None
    ) -> DebugSnapshot:
        return self._wait(self._window.debug_continue(thread=thread, timeout=timeout))

    def debug_step(
        self,
        step: Literal["over", "into", "out"] = "over",
        *,
        thread: int | None = None,
        timeout: float | None = None,
    ) -> DebugSnapshot:
        return self._wait(self._window.debug_step(step, thread=thread, timeout=timeout))

    def debug_pause(
        self, *, thread: int | None = None, timeout: float | None = None
    ) -> DebugSnapshot:
        return self._wait(self._window.debug_pause(thread=thread, timeout=timeout))

    def debug_state(self, *, thread: int | None = None, frame: int = 0) -> DebugSnapshot:
        return self._wait(self._window.debug_state(thread=thread, frame=frame))

    def debug_evaluate(
        self, expression: str, *, frame: int = 0, thread: int | None = None
    ) -> DebugValue:
        return self._wait(self._window.debug_evaluate(expression, frame=frame, thread=thread))

    def debug_set_variable(
        self, name: str, value: str, *, frame: int = 0, thread: int | None = None
    ) -> DebugValue:
        return self._wait(self._window.debug_set_variable(name, value, frame=frame, thread=thread))

    def debug_stop(self, *, restart: bool = False, timeout: float | None = None) -> DebugSnapshot:
        return self._wait(self._window.debug_stop(restart=restart, timeout=timeout))

    def read_cells(
        self,
        path: str,
        *,
        cells: Sequence[int] = (),
        offset: int = 0,
        limit: int = 50,
        outputs: bool = True,
        output_limit: int = 4000,
    ) -> NotebookCells:
        return self._wait(
            self._window.read_cells(
                path,
                cells=cells,
                offset=offset,
                limit=limit,
                outputs=outputs,
                output_limit=output_limit,
            )
        )

    def edit_cells(
        self, path: str, edits: Sequence[Mapping[str, Any]], *, timeout: float | None = None
    ) -> NotebookCells:
        return self._wait(self._window.edit_cells(path, edits, timeout=timeout))

    def run_cells(
        self,
        path: str,
        cells: Sequence[int] = (),
        *,
        output_limit: int = 4000,
        timeout: float | None = None,
    ) -> NotebookCells:
        return self._wait(
            self._window.run_cells(path, cells, output_limit=output_limit, timeout=timeout)
        )
