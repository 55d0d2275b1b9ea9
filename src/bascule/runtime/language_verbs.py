"""Convenience methods for the language features of a VS Code window or a sandbox.

A place in the code is given by a path, a line (from 1) and the symbol's text in that line. If the
text occurs several times in the line, `occurrence` chooses one of them, from 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from bascule.core.actions import Action

from .verbs import Verbs

if TYPE_CHECKING:
    # Not at run time: few programs use these modules.
    from bascule.core.editor_actions import LookupKind
    from bascule.core.editor_observations import (
        CodeChanged,
        Diagnosed,
        LanguageFound,
        SymbolsFound,
    )

Severity = Literal["error", "warning", "information", "hint"]


class LanguageVerbs(Verbs):
    """`Verbs`, and lookups and changes by language servers.

    A lookup skips the first `offset` results and returns at most `limit` results. If a language
    server is still starting, a call waits for it, within `timeout`. Changes are saved. In a window,
    the user reviews them, and undoes them in one step. In a sandbox they are one checkpoint.
    """

    async def diagnostics(
        self,
        path: str | None = None,
        *,
        severity: Severity = "hint",
        limit: int = 200,
        settle: bool = False,
        timeout: float | None = None,
    ) -> Diagnosed:
        """Problems that the language servers report, of at least this `severity`. Without a `path`,
        those of all files that the window knows, or that agents edited in the sandbox.

        With `settle`, waits until the problems belong to the current text of the file. Without a
        `path`, this waits for all files that agents changed.
        """
        from bascule.core.editor_actions import Diagnostics
        from bascule.core.editor_observations import Diagnosed

        action = Diagnostics(path, severity=severity, limit=limit, settle=settle, timeout=timeout)
        return await self._do(action, Diagnosed)

    async def symbols(
        self, path: str | None = None, *, query: str = "", limit: int = 200
    ) -> SymbolsFound:
        """Symbols of a file, or by name across the workspace."""
        from bascule.core.editor_actions import Symbols
        from bascule.core.editor_observations import SymbolsFound

        return await self._do(Symbols(path, query=query, limit=limit), SymbolsFound)

    async def definition(
        self,
        path: str,
        line: int,
        symbol: str,
        *,
        occurrence: int = 1,
        timeout: float | None = None,
    ) -> LanguageFound:
        return await self._look_up("definition", path, line, symbol, occurrence, timeout=timeout)

    async def type_definition(
        self,
        path: str,
        line: int,
        symbol: str,
        *,
        occurrence: int = 1,
        timeout: float | None = None,
    ) -> LanguageFound:
        """Where the type of the symbol is defined."""
        return await self._look_up(
            "type_definition", path, line, symbol, occurrence, timeout=timeout
        )

    async def implementations(
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
        """Classes and methods that implement the symbol."""
        return await self._look_up(
            "implementations",
            path,
            line,
            symbol,
            occurrence,
            offset=offset,
            limit=limit,
            timeout=timeout,
        )

    async def references(
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
        """Every use of the symbol, and its declaration."""
        return await self._look_up(
            "references",
            path,
            line,
            symbol,
            occurrence,
            offset=offset,
            limit=limit,
            timeout=timeout,
        )

    async def hover(
        self,
        path: str,
        line: int,
        symbol: str,
        *,
        occurrence: int = 1,
        timeout: float | None = None,
    ) -> LanguageFound:
        """Type and documentation of the symbol."""
        return await self._look_up("hover", path, line, symbol, occurrence, timeout=timeout)

    async def call_hierarchy(
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
        """The callers of the function, or with `outgoing` the functions that it calls."""
        return await self._look_up(
            "call_hierarchy",
            path,
            line,
            symbol,
            occurrence,
            direction=direction,
            offset=offset,
            limit=limit,
            timeout=timeout,
        )

    async def workspace_symbols(
        self,
        query: str,
        *,
        path: str | None = None,
        offset: int = 0,
        limit: int = 100,
        timeout: float | None = None,
    ) -> LanguageFound:
        """Symbols by name in the whole workspace.

        `path` names a file; the search uses its language server. Without `path`, the search uses
        only servers that run already.
        """
        return await self._look_up(
            "workspace_symbols", path, query=query, offset=offset, limit=limit, timeout=timeout
        )

    async def code_actions(
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
        """Quick fixes and refactorings for a symbol, or for whole lines if `symbol` is empty.

        `only` restricts the result to one kind of code action, such as `quickfix` or
        `refactor.extract`.
        """
        return await self._look_up(
            "code_actions",
            path,
            line,
            symbol,
            occurrence,
            query=only,
            end_line=end_line,
            limit=1000,
            timeout=timeout,
        )

    async def apply_code_action(
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
        """Apply a code action by the title that `code_actions` gave for the same place."""
        from bascule.core.editor_actions import ApplyCodeAction

        action = ApplyCodeAction(path, line, title, symbol, occurrence, end_line, timeout=timeout)
        return await self._change(action)

    async def rename_symbol(
        self,
        path: str,
        line: int,
        symbol: str,
        new_name: str,
        *,
        occurrence: int = 1,
        timeout: float | None = None,
    ) -> CodeChanged:
        """Rename a symbol in all files that use it."""
        from bascule.core.editor_actions import RenameSymbol

        action = RenameSymbol(path, line, symbol, new_name, occurrence, timeout=timeout)
        return await self._change(action)

    async def format(self, path: str, *, timeout: float | None = None) -> CodeChanged:
        """Format a file with the formatter for its language."""
        from bascule.core.editor_actions import FormatFile

        return await self._change(FormatFile(path, timeout=timeout))

    async def organize_imports(self, path: str, *, timeout: float | None = None) -> CodeChanged:
        """Sort the imports of a file and remove unused ones."""
        from bascule.core.editor_actions import OrganizeImports

        return await self._change(OrganizeImports(path, timeout=timeout))

    async def _look_up(self, what: LookupKind, /, *place: Any, **fields: Any) -> LanguageFound:
        # These modules are imported here because few programs use them.
        from bascule.core.editor_actions import LanguageLookup
        from bascule.core.editor_observations import LanguageFound

        return await self._do(LanguageLookup(what, *place, **fields), LanguageFound)

    async def _change(self, action: Action) -> CodeChanged:
        from bascule.core.editor_observations import CodeChanged

        return await self._do(action, CodeChanged)
