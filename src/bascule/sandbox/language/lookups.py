"""Lookups by language servers: definitions, references, hovers and so on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bascule.core.editor_actions import LanguageLookup, Symbols
from bascule.core.editor_observations import LanguageFound, SymbolsFound
from bascule.core.errors import NotSupported

from .asking import Answer, OpenedFile, Questions, WaitLimit
from .code_actions import find_code_actions
from .lookup_items import (
    Item,
    call_item,
    code_action_item,
    document_symbols,
    hover_text,
    item_line,
    location_item,
    short_line,
    symbol_item,
)
from .running_servers import AdmitStart
from .server import LanguageServer
from .text_positions import Range, TextLines, lines_range, symbol_range

_MAX_LIMIT: Final = 1000
_METHODS: Final = {
    "definition": ("textDocument/definition", "definitionProvider"),
    "type_definition": ("textDocument/typeDefinition", "typeDefinitionProvider"),
    "implementations": ("textDocument/implementation", "implementationProvider"),
    "references": ("textDocument/references", "referencesProvider"),
    "hover": ("textDocument/hover", "hoverProvider"),
    "call_hierarchy": ("textDocument/prepareCallHierarchy", "callHierarchyProvider"),
    "code_actions": ("textDocument/codeAction", "codeActionProvider"),
    "workspace_symbols": ("workspace/symbol", "workspaceSymbolProvider"),
}
"""The request of each lookup, and the capability that a server needs for it."""
_NO_SERVER: Final = (
    "No language server runs yet, so nothing was searched. Name a `path` in the language: its "
    "server is started"
)


class Lookups:
    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    async def look_up(self, action: LanguageLookup, cwd: str, admit: AdmitStart) -> LanguageFound:
        answer = await self._find(action, cwd, admit)
        total = len(answer.found)
        end = action.offset + min(max(1, action.limit), _MAX_LIMIT)
        items = answer.found[action.offset : end]
        await self._questions.in_thread(self._add_lines, items)
        more = f"{total} results in total; continue with `offset` {end}" if end < total else ""
        return LanguageFound(
            content="\n".join(map(item_line, items)) or _nothing(action, total),
            what=action.what,
            items=items,
            total=total,
            truncated=end < total,
            waited=answer.waited,
            note="\n".join(filter(None, (more, answer.note))) or None,
        )

    async def symbols(self, action: Symbols, cwd: str, admit: AdmitStart) -> SymbolsFound:
        limit = WaitLimit(action)
        if action.path:
            opened = await self._questions.open(action.path, cwd, limit, admit)
            answer = await self._questions.ask(opened, lambda: _symbols_in(opened))
            wanted = action.query.lower()
            answer = Answer(
                [each for each in answer.found if wanted in each["name"].lower()],
                answer.waited,
                answer.is_unsure,
            )
        else:
            answer = await self._search_everywhere(action.query, limit)
        items = answer.found[: action.limit]
        lines = [f"{each['path']}:{each['line']}: {each['kind']} {each['name']}" for each in items]
        note = answer.note or ("" if action.path or self._questions.servers.running else _NO_SERVER)
        return SymbolsFound(
            content="\n".join(lines) or "No symbols",
            items=items,
            truncated=len(answer.found) > action.limit,
            note=note or None,
        )

    async def _find(
        self, action: LanguageLookup, cwd: str, admit: AdmitStart
    ) -> Answer[list[Item]]:
        limit = WaitLimit(action)
        if action.what == "workspace_symbols" and not action.path:
            return await self._search_everywhere(action.query, limit)

        def place(lines: TextLines, shown_path: str) -> Range:
            if action.what == "workspace_symbols":
                return lines_range(lines, shown_path, 1, None)
            if action.what == "code_actions" and not action.symbol:
                return lines_range(lines, shown_path, action.line, action.end_line)
            return symbol_range(lines, shown_path, action.line, action.symbol, action.occurrence)

        opened = await self._questions.open(action.path, cwd, limit, admit, place)
        method, capability = _METHODS[action.what]
        if not opened.server.offers(capability):
            raise NotSupported(
                f"{opened.server.name} does not offer {action.what.replace('_', ' ')}",
                kind=action.kind,
            )
        # The text may have changed since it was read first.
        found = place(opened.document.lines, opened.shown_path)
        return await self._questions.ask(opened, lambda: _items(opened, action, method, found))

    async def _search_everywhere(self, query: str, limit: WaitLimit) -> Answer[list[Item]]:
        """Search with all running servers."""
        found: list[Item] = []
        for server in self._questions.servers.running:
            async with limit.reading(server.name):
                await self._questions.synchronize(server)
                found += await _symbols_named(server, query)
        return Answer(found)

    def _add_lines(self, items: Sequence[Item]) -> None:
        """Add the text of the line to places without a name, if the file may be read."""
        texts: dict[str, TextLines | None] = {}
        changes = self._questions.files().changes
        for item in items:
            path = item.get("path")
            if path is None or "name" in item:
                continue
            if path not in texts:
                is_text = Path(path).is_absolute() and changes.is_readable(path)
                texts[path] = TextLines(changes.read(path, "/")) if is_text else None
            lines = texts[path]
            is_inside = lines is not None and item["line"] <= lines.count
            item["text"] = short_line(lines.line(item["line"] - 1)) if lines and is_inside else ""


async def _items(
    opened: OpenedFile, action: LanguageLookup, method: str, place: Range
) -> list[Item]:
    server, document = opened.server, opened.document
    at: dict[str, Any] = {"textDocument": document.identifier, "position": place["start"]}
    match action.what:
        case "workspace_symbols":
            return await _symbols_named(server, action.query)
        case "code_actions":
            actions = await find_code_actions(opened, place, action.query)
            return [code_action_item(each) for each in actions]
        case "hover":
            found = await server.request(method, at)
            text = hover_text(found["contents"]) if found else ""
            return [{"text": text.strip()}] if text.strip() else []
        case "call_hierarchy":
            functions = await server.request(method, at) or ()
            return [
                call
                for each in functions
                for call in await _calls(server, each, incoming=action.direction == "incoming")
            ]
        case "references":
            at["context"] = {"includeDeclaration": True}
    return [location_item(each) for each in _as_list(await server.request(method, at))]


async def _calls(
    server: LanguageServer, function: Mapping[str, Any], *, incoming: bool
) -> list[Item]:
    kind, other = ("incomingCalls", "from") if incoming else ("outgoingCalls", "to")
    found = await server.request(f"callHierarchy/{kind}", {"item": function})
    return [call_item(each[other], each["fromRanges"]) for each in found or ()]


async def _symbols_in(opened: OpenedFile) -> list[Item]:
    params = {"textDocument": opened.document.identifier}
    found = await opened.server.request("textDocument/documentSymbol", params)
    return document_symbols(found or [], opened.document.path)


async def _symbols_named(server: LanguageServer, query: str) -> list[Item]:
    found = await server.request("workspace/symbol", {"query": query})
    return [symbol_item(each) for each in found or ()]


def _as_list(found: Any) -> list[Mapping[str, Any]]:
    """A server may return one place, several or none."""
    return [found] if isinstance(found, Mapping) else list(found or ())


def _nothing(action: LanguageLookup, total: int) -> str:
    if total:
        return f"No more results; there are {total}"
    about = action.symbol or action.query
    return f"No {action.what.replace('_', ' ')}{f' for {about!r}' if about else ''}"
