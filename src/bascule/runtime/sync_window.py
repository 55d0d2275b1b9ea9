"""A VS Code window for synchronous code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from bascule.core.editor_observations import (
    BreakpointList,
    CodeChanged,
    DebugConfigurationList,
    DebugSnapshot,
    DebugValue,
    Diagnosed,
    DiffShown,
    FileOpened,
    LanguageFound,
    Selected,
    SymbolsFound,
    UserAnswered,
    VscodeCommandDone,
)

from .sync import SyncRuntime
from .window_verbs import Severity, WindowVerbs


class SyncWindowRuntime(SyncRuntime):
    """`SyncRuntime` of a `VSCodeRuntime`, with the methods that need an editor and its user."""

    def __init__(self, runtime: WindowVerbs) -> None:
        super().__init__(runtime)
        self._window = runtime

    def diagnostics(
        self,
        path: str | None = None,
        *,
        severity: Severity = "hint",
        limit: int = 200,
        settle: bool = False,
        timeout: float | None = None,
    ) -> Diagnosed:
        return self._wait(
            self._window.diagnostics(
                path, severity=severity, limit=limit, settle=settle, timeout=timeout
            )
        )

    def symbols(
        self, path: str | None = None, *, query: str = "", limit: int = 200
    ) -> SymbolsFound:
        return self._wait(self._window.symbols(path, query=query, limit=limit))

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

    def definition(
        self,
        path: str,
        line: int,
        symbol: str,
        *,
        occurrence: int = 1,
        timeout: float | None = None,
    ) -> LanguageFound:
        return self._wait(
            self._window.definition(path, line, symbol, occurrence=occurrence, timeout=timeout)
        )

    def type_definition(
        self,
        path: str,
        line: int,
        symbol: str,
        *,
        occurrence: int = 1,
        timeout: float | None = None,
    ) -> LanguageFound:
        return self._wait(
            self._window.type_definition(path, line, symbol, occurrence=occurrence, timeout=timeout)
        )

    def implementations(
        self,
        path: str,
        line: int,
        symbol: str,
        *,
        occurrence: int = 1,
        offset: int = 0,
        limit: int = 100,
        timeout: float | None = None,
    ) -> LanguageFound:
        return self._wait(
            self._window.implementations(
                path,
                line,
                symbol,
                occurrence=occurrence,
                offset=offset,
                limit=limit,
                timeout=timeout,
            )
        )

    def references(
        self,
        path: str,
        line: int,
        symbol: str,
        *,
        occurrence: int = 1,
        offset: int = 0,
        limit: int = 100,
        timeout: float | None = None,
    ) -> LanguageFound:
        return self._wait(
            self._window.references(
                path,
                line,
                symbol,
                occurrence=occurrence,
                offset=offset,
                limit=limit,
                timeout=timeout,
            )
        )

    def hover(
        self,
        path: str,
        line: int,
        symbol: str,
        *,
        occurrence: int = 1,
        timeout: float | None = None,
    ) -> LanguageFound:
        return self._wait(
            self._window.hover(path, line, symbol, occurrence=occurrence, timeout=timeout)
        )

    def call_hierarchy(
        self,
        path: str,
        line: int,
        symbol: str,
        *,
        direction: Literal["incoming", "outgoing"] = "incoming",
        occurrence: int = 1,
        offset: int = 0,
        limit: int = 100,
        timeout: float | None = None,
    ) -> LanguageFound:
        return self._wait(
            self._window.call_hierarchy(
                path,
                line,
                symbol,
                direction=direction,
                occurrence=occurrence,
                offset=offset,
                limit=limit,
                timeout=timeout,
            )
        )

    def workspace_symbols(
        self,
        query: str,
        *,
        path: str | None = None,
        offset: int = 0,
        limit: int = 100,
        timeout: float | None = None,
    ) -> LanguageFound:
        return self._wait(
            self._window.workspace_symbols(
                query, path=path, offset=offset, limit=limit, timeout=timeout
            )
        )

    def code_actions(
        self,
        path: str,
        line: int,
        symbol: str = "",
        *,
        occurrence: int = 1,
        end_line: int | None = None,
        only: str = "",
        timeout: float | None = None,
    ) -> LanguageFound:
        return self._wait(
            self._window.code_actions(
                path,
                line,
                symbol,
                occurrence=occurrence,
                end_line=end_line,
                only=only,
                timeout=timeout,
            )
        )

    def apply_code_action(
        self,
        path: str,
        line: int,
        title: str,
        *,
        symbol: str = "",
        occurrence: int = 1,
        end_line: int | None = None,
        timeout: float | None = None,
    ) -> CodeChanged:
        return self._wait(
            self._window.apply_code_action(
                path,
                line,
                title,
                symbol=symbol,
                occurrence=occurrence,
                end_line=end_line,
                timeout=timeout,
            )
        )

    def rename_symbol(
        self,
        path: str,
        line: int,
        symbol: str,
        new_name: str,
        *,
        occurrence: int = 1,
        timeout: float | None = None,
    ) -> CodeChanged:
        return self._wait(
            self._window.rename_symbol(
                path, line, symbol, new_name, occurrence=occurrence, timeout=timeout
            )
        )

    def format(self, path: str, *, timeout: float | None = None) -> CodeChanged:
        return self._wait(self._window.format(path, timeout=timeout))

    def organize_imports(self, path: str, *, timeout: float | None = None) -> CodeChanged:
        return self._wait(self._window.organize_imports(path, timeout=timeout))

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
