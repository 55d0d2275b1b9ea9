"""Executes language actions of a sandbox. A sandbox imports this with its first such action."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from bascule.core.actions import Action
from bascule.core.contracts import Closable
from bascule.core.editor_actions import (
    ApplyCodeAction,
    Diagnostics,
    FormatFile,
    LanguageLookup,
    OrganizeImports,
    RenameSymbol,
    Symbols,
)
from bascule.core.editor_observations import Diagnosed
from bascule.core.errors import (
    ActionTimedOut,
    BasculeError,
    ConsentDenied,
    InvalidRange,
    MissingTool,
    NotSupported,
)
from bascule.core.observations import Observation
from bascule.sandbox.blocking_calls import InThread
from bascule.sandbox.files.file_actions import FileActions
from bascule.sandbox.shell.keeper import Keeper
from bascule.sandbox.shell.settings import ShellSettings

from .asking import OpenedFile, Questions, WaitLimit
from .lookup_items import Item
from .lookups import Lookups
from .problems import SEVERITIES, problem_item, problem_line, problems_of
from .refactorings import Permissions, Refactorings
from .running_servers import AdmitStart, RunningServers
from .servers import servers_for, suffix_of

_NOT_SETTLED: Final = (
    "The language server was not done in time, so problems may be missing. Ask again"
)
_NO_FILES: Final = (
    "No file was checked: no language server runs yet, and no agent changed a file. Name a `path`"
)


class LanguageFeatures(Closable):
    """The language actions of one sandbox. Closing ends the language servers."""

    def __init__(
        self,
        shells: ShellSettings,
        *,
        keeper: Keeper,
        ensure_dir: Callable[[], Path],
        files: Callable[[], FileActions],
        in_thread: InThread,
    ) -> None:
        self._servers = RunningServers(shells, keeper=keeper, ensure_dir=ensure_dir)
        self._questions = Questions(self._servers, files, in_thread)
        self._lookups = Lookups(self._questions)
        self._refactorings = Refactorings(self._questions)

    async def act(
        self, action: Action, cwd: str, permit: Permissions, edited: Sequence[str]
    ) -> Observation:
        """`edited`: files that agents edited lately."""
        _ensure_not_negative(action)
        match action:
            case LanguageLookup():
                return await self._lookups.look_up(action, cwd, permit.start)
            case Symbols():
                return await self._lookups.symbols(action, cwd, permit.start)
            case Diagnostics():
                return await self._diagnostics(action, cwd, permit.start, edited)
            case RenameSymbol():
                return await self._refactorings.rename(action, cwd, permit)
            case ApplyCodeAction():
                return await self._refactorings.apply_code_action(action, cwd, permit)
            case FormatFile():
                return await self._refactorings.format(action, cwd, permit)
            case OrganizeImports():
                return await self._refactorings.organize_imports(action, cwd, permit)
        raise NotSupported(f"{action.kind!r} is not a language action", kind=action.kind)

    async def aclose(self) -> None:
        await self._servers.aclose()

    async def _diagnostics(
        self, action: Diagnostics, cwd: str, admit: AdmitStart, edited: Sequence[str]
    ) -> Diagnosed:
        limit = WaitLimit(action)
        refusals: Sequence[ConsentDenied] = ()
        if action.path:
            opened = [await self._questions.open(action.path, cwd, limit, admit)]
        else:
            opened, refusals = await self._open_all(limit, admit, edited)
        items: list[Item] = []
        notes = [f"Files were not checked: {each.message}" for each in refusals]
        if not opened and not refusals:
            notes.append(_NO_FILES)
        settled = True
        for each in opened:
            found, is_settled = await self._problems_in(each)
            items += found
            settled = settled and is_settled
        if not settled:
            notes.append(_NOT_SETTLED)
        least = SEVERITIES.index(action.severity)
        wanted = [each for each in items if SEVERITIES.index(each["severity"]) <= least]
        shown = wanted[: action.limit]
        return Diagnosed(
            content="\n".join(map(problem_line, shown)) or "No problems",
            items=shown,
            truncated=len(wanted) > action.limit,
            settled=settled if action.settle else None,
            note="\n".join(notes) or None,
        )

    async def _open_all(
        self, limit: WaitLimit, admit: AdmitStart, edited: Sequence[str]
    ) -> tuple[list[OpenedFile], list[ConsentDenied]]:
        """Open the edited files. Returns all open documents, and why servers may not start."""
        refusals: dict[Sequence[str], ConsentDenied] = {}
        for path in edited:
            programs = tuple(each.program for each in servers_for(suffix_of(path)))
            if programs in refusals:
                continue  # a person is not asked again for each file
            try:
                await self._questions.open(path, "/", limit, admit)
            except (NotSupported, MissingTool):
                continue  # in another language
            except ActionTimedOut:
                raise
            except ConsentDenied as error:
                if limit.is_over:
                    raise
                refusals[programs] = error
            except BasculeError:
                continue  # removed meanwhile, or not text
        opened = []
        for server in self._servers.running:
            async with limit.reading(server.name):
                await self._questions.synchronize(server)
            opened += [
                OpenedFile(each.path, server, each, limit, was_ready=True)
                for each in server.documents.all()
            ]
        return opened, list(refusals.values())

    async def _problems_in(self, opened: OpenedFile) -> tuple[list[Item], bool]:
        """The problems of a file, and whether they belong to its current text."""
        server, document = opened.server, opened.document
        try:
            answer = await self._questions.ask(opened, lambda: problems_of(server, document))
        except ActionTimedOut:
            published = server.problems.get(document.uri, ())
            return [problem_item(each, document.path) for each in published], False
        items = [problem_item(each, document.path) for each in answer.found]
        return items, not answer.is_unsure


def _ensure_not_negative(action: Action) -> None:
    match action:
        case LanguageLookup(offset=offset, limit=limit) if min(offset, limit) < 0:
            raise InvalidRange(
                f"`offset` and `limit` must not be negative; they are {offset} and {limit}"
            )
        case Symbols(limit=limit) | Diagnostics(limit=limit) if limit < 0:
            raise InvalidRange(f"`limit` must not be negative; it is {limit}")
