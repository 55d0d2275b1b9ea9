"""Convenience methods for the language features of a VS Code window.

A place in the code is given by a path, a line (from 1) and the symbol's text in that line. If the
text occurs several times in the line, `occurrence` chooses one of them, from 1.
"""

from __future__ import annotations

from typing import Literal

from bascule.core.editor_actions import (
    ApplyCodeAction,
    FormatFile,
    LanguageLookup,
    OrganizeImports,
    RenameSymbol,
)
from bascule.core.editor_observations import CodeChanged, LanguageFound

from .verbs import Verbs


class LanguageVerbs(Verbs):
    """`Verbs`, and lookups and changes by language servers.

    A lookup skips the first `offset` results and returns at most `limit` results. If a language
    server is still starting, a call waits for it, within `timeout`. Changes are saved, shown to the
    user for review and undone in one step.
    """

    async def definition(
        self,
        path: str,
        line: int,
        symbol: str,
        *,
        occurrence: int = 1,
        timeout: float | None = None,
    ) -> LanguageFound:
        return await self._look_up(
            LanguageLookup("definition", path, line, symbol, occurrence, timeout=timeout)
        )

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
            LanguageLookup("type_definition", path, line, symbol, occurrence, timeout=timeout)
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
            LanguageLookup(
                "implementations",
                path,
                line,
                symbol,
                occurrence,
                offset=offset,
                limit=limit,
                timeout=timeout,
            )
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
            LanguageLookup(
                "references",
                path,
                line,
                symbol,
                occurrence,
                offset=offset,
                limit=limit,
                timeout=timeout,
            )
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
        return await self._look_up(
            LanguageLookup("hover", path, line, symbol, occurrence, timeout=timeout)
        )

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
            LanguageLookup(
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
            LanguageLookup(
                "workspace_symbols", path, query=query, offset=offset, limit=limit, timeout=timeout
            )
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
            LanguageLookup(
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
        action = ApplyCodeAction(path, line, title, symbol, occurrence, end_line, timeout=timeout)
        return await self._do(action, CodeChanged)

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
        action = RenameSymbol(path, line, symbol, new_name, occurrence, timeout=timeout)
        return await self._do(action, CodeChanged)

    async def format(self, path: str, *, timeout: float | None = None) -> CodeChanged:
        """Format a file with the editor's formatter for its language."""
        return await self._do(FormatFile(path, timeout=timeout), CodeChanged)

    async def organize_imports(self, path: str, *, timeout: float | None = None) -> CodeChanged:
        """Sort the imports of a file and remove unused ones."""
        return await self._do(OrganizeImports(path, timeout=timeout), CodeChanged)

    async def _look_up(self, action: LanguageLookup) -> LanguageFound:
        return await self._do(action, LanguageFound)
