"""The language features of a runtime for synchronous code."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from .language_verbs import LanguageVerbs, Severity

if TYPE_CHECKING:
    # Not at run time: few programs use this module.
    from bascule.core.editor_observations import (
        CodeChanged,
        Diagnosed,
        LanguageFound,
        SymbolsFound,
    )

_Answer = TypeVar("_Answer")


class SyncLanguageVerbs:
    """The methods of `LanguageVerbs` as blocking calls."""

    _runtime: LanguageVerbs

    def _wait(self, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        raise NotImplementedError

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
            self._runtime.diagnostics(
                path, severity=severity, limit=limit, settle=settle, timeout=timeout
            )
        )

    def symbols(
        self, path: str | None = None, *, query: str = "", limit: int = 200
    ) -> SymbolsFound:
        return self._wait(self._runtime.symbols(path, query=query, limit=limit))

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
            self._runtime.definition(path, line, symbol, occurrence=occurrence, timeout=timeout)
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
            self._runtime.type_definition(
                path, line, symbol, occurrence=occurrence, timeout=timeout
            )
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
            self._runtime.implementations(
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
            self._runtime.references(
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
            self._runtime.hover(path, line, symbol, occurrence=occurrence, timeout=timeout)
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
            self._runtime.call_hierarchy(
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
            self._runtime.workspace_symbols(
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
            self._runtime.code_actions(
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
            self._runtime.apply_code_action(
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
            self._runtime.rename_symbol(
                path, line, symbol, new_name, occurrence=occurrence, timeout=timeout
            )
        )

    def format(self, path: str, *, timeout: float | None = None) -> CodeChanged:
        return self._wait(self._runtime.format(path, timeout=timeout))

    def organize_imports(self, path: str, *, timeout: float | None = None) -> CodeChanged:
        return self._wait(self._runtime.organize_imports(path, timeout=timeout))
