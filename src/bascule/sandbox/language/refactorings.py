"""Actions that change code with language servers: renames, fixes and formatters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from bascule.core.editor_actions import ApplyCodeAction, FormatFile, OrganizeImports, RenameSymbol
from bascule.core.editor_observations import CodeChanged
from bascule.core.errors import (
    ActionTimedOut,
    BasculeError,
    EditConflict,
    EditInvalid,
    ExecutionError,
    NoSuchCodeAction,
    NotSupported,
)
from bascule.sandbox.files.diff import line_changes, unified_diff
from bascule.sandbox.files.text_changes import TextChange
from bascule.sandbox.files.textfile import unix_lines

from .asking import Answer, OpenedFile, Questions, WaitLimit
from .code_actions import CodeAction, command_of, completed, find_code_actions
from .lookup_items import short_line
from .running_servers import AdmitStart
from .server import LanguageServer
from .text_positions import Range, TextLines, lines_range, symbol_range
from .tsserver import tsserver_organized_imports
from .workspace_edits import FileEdits, joined_edits, read_workspace_edit, text_edits
from .workspace_files import identity_of

_MAX_LINES: Final = 50
"""Maximum changed lines in the text of an answer."""
_MAX_LISTED: Final = 100
"""Maximum changed lines that are listed for a file."""
_MAX_DIFF: Final = 100_000
_ORGANIZE: Final = "source.organizeImports"
_TAB_SIZE: Final = 4
_CHOSEN_NAME: Final = "The language server chose a name; rename_symbol changes it"

ChangeFiles = Callable[[Sequence[str], Callable[[], Awaitable[None]]], Awaitable[None]]
"""Calls the function, which changes the files with these paths, if the rules allow it."""


@dataclass(frozen=True, slots=True)
class Permissions:
    """What an action needs permission for."""

    start: AdmitStart
    change: ChangeFiles


class Refactorings:
    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    async def rename(self, action: RenameSymbol, cwd: str, permit: Permissions) -> CodeChanged:
        name = action.new_name
        if not name.strip() or "\n" in name or "\r" in name:
            raise EditInvalid("`new_name` is empty or has several lines")
        if name == action.symbol:
            raise EditInvalid("`new_name` is the name it already has")

        def place(lines: TextLines, shown_path: str) -> Range:
            return symbol_range(lines, shown_path, action.line, action.symbol, action.occurrence)

        limit = WaitLimit(action)
        opened = await self._questions.open(action.path, cwd, limit, permit.start, place)
        _ensure_offered(opened, "renameProvider", "rename symbols", action.kind)
        start = place(opened.document.lines, opened.shown_path)["start"]
        params = {"textDocument": opened.document.identifier, "position": start, "newName": name}
        answer = await self._questions.ask(
            opened, lambda: opened.server.request("textDocument/rename", params)
        )
        if answer.is_unsure:
            raise ActionTimedOut(
                "The language server is still starting, so a rename would miss files; nothing was "
                "changed"
            )
        edits = read_workspace_edit(answer.found)
        if not edits:
            raise ExecutionError(
                f"{opened.server.name} cannot rename '{action.symbol}' in {opened.shown_path}"
            )
        changes = await self._apply(opened.server, edits, permit)
        return _changed(f"Renamed '{action.symbol}' to '{name}'", changes, answer)

    async def apply_code_action(
        self, action: ApplyCodeAction, cwd: str, permit: Permissions
    ) -> CodeChanged:
        def place(lines: TextLines, shown_path: str) -> Range:
            if not action.symbol:
                return lines_range(lines, shown_path, action.line, action.end_line)
            return symbol_range(lines, shown_path, action.line, action.symbol, action.occurrence)

        limit = WaitLimit(action)
        opened = await self._questions.open(action.path, cwd, limit, permit.start, place)
        _ensure_offered(opened, "codeActionProvider", "offer code actions", action.kind)
        found = place(opened.document.lines, opened.shown_path)
        answer = await self._questions.ask(opened, lambda: find_code_actions(opened, found, ""))
        chosen = _chosen(answer.found, action.title)
        if chosen is None:
            offered = "; ".join(each["title"] for each in answer.found) or "nothing"
            raise NoSuchCodeAction(
                f"{opened.server.name} offers no code action '{action.title}' there. It offers: "
                f"{offered}"
            )
        changes, note = await self._perform(opened, chosen, permit)
        return _changed(f"Applied '{action.title}'", changes, answer, note=note)

    async def format(self, action: FormatFile, cwd: str, permit: Permissions) -> CodeChanged:
        limit = WaitLimit(action)
        opened = await self._questions.open(action.path, cwd, limit, permit.start)
        offer = f"format files. Use a formatter for {opened.document.language} in a shell"
        _ensure_offered(opened, "documentFormattingProvider", offer, action.kind)
        params = {
            "textDocument": opened.document.identifier,
            "options": {"tabSize": _TAB_SIZE, "insertSpaces": "\n\t" not in opened.document.text},
        }
        answer = await self._questions.ask(
            opened, lambda: opened.server.request("textDocument/formatting", params)
        )
        edits = text_edits(opened.document.path, answer.found)
        changes = await self._apply(opened.server, edits, permit)
        done = f"Formatted {opened.shown_path}"
        return _changed(done, changes, answer, nothing=f"{opened.shown_path} is formatted already")

    async def organize_imports(
        self, action: OrganizeImports, cwd: str, permit: Permissions
    ) -> CodeChanged:
        limit = WaitLimit(action)
        opened = await self._questions.open(action.path, cwd, limit, permit.start)
        done = f"Organized the imports of {opened.shown_path}"
        nothing = f"The imports of {opened.shown_path} are organized already"
        if opened.server.kind.has_tsserver:
            edits = await self._questions.ask(
                opened, lambda: tsserver_organized_imports(opened.server, opened.document)
            )
            planned = text_edits(opened.document.path, edits.found)
            changes = await self._apply(opened.server, planned, permit)
            return _changed(done, changes, edits, nothing=nothing)
        provider = opened.server.capabilities.get("codeActionProvider")
        kinds = provider.get("codeActionKinds", ()) if isinstance(provider, Mapping) else ()
        if not any(each == _ORGANIZE or each.startswith(f"{_ORGANIZE}.") for each in kinds):
            raise NotSupported(f"{opened.server.name} does not organize imports", kind=action.kind)
        whole = lines_range(opened.document.lines, "", 1, opened.document.lines.count)
        answer = await self._questions.ask(
            opened, lambda: find_code_actions(opened, whole, _ORGANIZE)
        )
        changes, note = [], ""
        if answer.found:
            changes, note = await self._perform(opened, answer.found[0], permit)
        return _changed(done, changes, answer, note=note, nothing=nothing)

    async def _perform(
        self, opened: OpenedFile, chosen: CodeAction, permit: Permissions
    ) -> tuple[list[TextChange], str]:
        """Apply the edit of a code action, then run its command. Also returns a note."""
        if disabled := chosen.get("disabled"):
            raise NoSuchCodeAction(f"'{chosen['title']}' is not possible: {disabled['reason']}")
        server, limit = opened.server, opened.limit
        async with limit.reading(server.name):
            action = await completed(opened, chosen)
        edits = read_workspace_edit(action.get("edit"))
        changes = await self._apply(server, edits, permit)
        command = command_of(action)
        if command is None:
            return changes, ""
        if command["command"] not in server.commands:
            # For example one that lets the user type a name in the editor.
            return changes, f"Its command {command['command']} is for editors, and was not run"
        try:
            return await self._with_command(opened, command, changes, permit)
        except BasculeError as error:
            if not changes:
                raise
            # An error would say that nothing was changed, but the edit is on the disk.
            is_late = isinstance(error, ActionTimedOut)
            how = (
                "did not end in time" if is_late else f"failed and changed nothing: {error.message}"
            )
            return changes, f"Its edit was made, but its command {command['command']} {how}"

    async def _with_command(
        self,
        opened: OpenedFile,
        command: Mapping[str, Any],
        changes: Sequence[TextChange],
        permit: Permissions,
    ) -> tuple[list[TextChange], str]:
        """Run the command of a code action whose edit made `changes`. Returns all changes, and a
        note."""
        server, limit = opened.server, opened.limit
        if changes:
            async with limit.reading(server.name):
                await self._questions.synchronize(server)
        async with limit.reading(server.name), server.in_use:
            found: list[Mapping[str, Any]] = []
            server.edits, server.asks_for_name = found, False
            try:
                arguments = command.get("arguments") or []
                params = {"command": command["command"], "arguments": arguments}
                await server.request("workspace/executeCommand", params)
            finally:
                server.edits = None
        # The server sent all edits before it was told a new text, so they are for the same texts.
        more = await self._apply(server, joined_edits(found), permit)
        return [*changes, *more], _CHOSEN_NAME * server.asks_for_name

    async def _apply(
        self, server: LanguageServer, edits: Sequence[FileEdits], permit: Permissions
    ) -> list[TextChange]:
        """Make the changes, all of them or none."""
        in_thread = self._questions.in_thread
        planned = await in_thread(self._plan, server, edits)
        changes = [each for each in planned if each.before != each.after]
        if changes:
            apply = self._questions.files
            await permit.change(
                [each.path for each in changes],
                lambda: in_thread(lambda: apply().changes.apply(changes)),
            )
        return changes

    def _plan(self, server: LanguageServer, edits: Sequence[FileEdits]) -> list[TextChange]:
        """The texts after the edits. The edits are for the texts that the server has."""
        planned = []
        for each in edits:
            before = None if each.is_new else self._text_of(server, each.path)
            planned.append(TextChange(each.path, before, each.applied_to(before or "")))
        return planned

    def _text_of(self, server: LanguageServer, path: str) -> str:
        document = server.documents.get(path)
        if document is not None:
            return document.text
        text = self._questions.files().changes.read(path, "/")
        known = server.files.identity(path)
        if known is not None and identity_of(Path(path).stat()) != known:
            raise EditConflict(
                f"{path} was changed while the change was computed; nothing was changed. Try again"
            )
        return text


def _ensure_offered(opened: OpenedFile, capability: str, offer: str, kind: str) -> None:
    if not opened.server.offers(capability):
        raise NotSupported(f"{opened.server.name} does not {offer}", kind=kind)


def _chosen(found: Sequence[CodeAction], title: str) -> CodeAction | None:
    """The action with this title; of several, the preferred one."""
    named = [each for each in found if each["title"] == title]
    return next((each for each in named if each.get("isPreferred")), named[0] if named else None)


def _changed(
    done: str,
    changes: Sequence[TextChange],
    answer: Answer[Any],
    *,
    note: str = "",
    nothing: str = "Nothing changed",
) -> CodeChanged:
    merged = _merged(changes)
    numbers = {each.path: _changed_lines(each) for each in merged}
    lines = [line for each in merged for line in _line_texts(each, numbers[each.path])]
    diff = "\n".join(
        unified_diff(unix_lines(each.before or ""), unix_lines(each.after), each.path)
        for each in merged
    )
    left = len(lines) - _MAX_LINES
    summary = f"{done}: {_count(len(lines), 'line')} in {_count(len(merged), 'file')}"
    more = [f"… and {left} more changed lines"] if left > 0 else []
    return CodeChanged(
        content="\n".join([summary if merged else nothing, *lines[:_MAX_LINES], *more]),
        files=[{"path": path, "lines": found[:_MAX_LISTED]} for path, found in numbers.items()],
        diff=diff[:_MAX_DIFF],
        truncated=len(diff) > _MAX_DIFF,
        waited=answer.waited,
        note="\n".join(filter(None, (note, answer.note))) or None,
    )


def _merged(changes: Sequence[TextChange]) -> list[TextChange]:
    """One change for each file, although an action may change it twice."""
    merged: dict[str, TextChange] = {}
    for each in changes:
        first = merged.get(each.path)
        merged[each.path] = replace(each, before=first.before) if first else each
    return [each for each in merged.values() if each.before != each.after]


def _changed_lines(change: TextChange) -> list[int]:
    """Numbers of the changed lines in the new text, from 1."""
    found = line_changes(unix_lines(change.before or ""), unix_lines(change.after))
    return [
        number
        for _, _, start, end in found
        for number in (range(start + 1, end + 1) if end > start else [start + 1])
    ]


def _line_texts(change: TextChange, numbers: Sequence[int]) -> list[str]:
    lines = unix_lines(change.after).split("\n")
    return [
        f"{change.path}:{number}: {short_line(lines[number - 1] if number <= len(lines) else '')}"
        for number in numbers
    ]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
