"""The language servers of one sandbox: started with the first action that needs them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from bascule.core.contracts import Closable
from bascule.core.errors import BasculeError, MissingTool, NotSupported, SandboxDied
from bascule.sandbox.shell.keeper import Keeper
from bascule.sandbox.shell.settings import ShellSettings, shell_environment
from bascule.sandbox.shell.shared_start import SharedStart

from .server import LanguageServer
from .servers import InstalledServer, find_server, known_languages, servers_for, suffix_of

AdmitStart = Callable[[Sequence[str]], Awaitable[None]]
"""Raises an error unless the sandbox may start the program with these arguments."""
ReadText = Callable[[str], str]
"""Reads a text file, in a thread."""

_MAX_OPENED: Final = 200
"""Maximum number of changed files that are opened at once. Servers learn about an opened file
immediately, and about others only when they have looked at the workspace again."""


class _ServerSlot:
    """Holds one server at a time: the running one, which is replaced when it is started again."""

    def __init__(self, start: Callable[[], Awaitable[LanguageServer]]) -> None:
        self._start_server = start
        self.server: LanguageServer | None = None
        self.starting = SharedStart(self._start)

    async def running(self) -> LanguageServer:
        is_running = self.server is not None and self.server.is_alive
        await self.starting.ensure_started(is_running=is_running)
        assert self.server is not None
        return self.server

    async def _start(self) -> None:
        if self.server is not None:
            await self.server.aclose()
            self.server = None
        self.server = await self._start_server()


class RunningServers(Closable):
    """Starts and reuses servers, and tells them about changed files. Closing ends them."""

    def __init__(
        self,
        shells: ShellSettings,
        *,
        keeper: Keeper,
        ensure_dir: Callable[[], Path],
    ) -> None:
        self._shells = shells
        self._keeper = keeper
        self._ensure_dir = ensure_dir
        self._slots: dict[str, _ServerSlot] = {}
        self._closed = False

    @property
    def running(self) -> list[LanguageServer]:
        servers = (slot.server for slot in self._slots.values())
        return [each for each in servers if each is not None and each.is_alive]

    async def server_for(self, path: str, admit: AdmitStart) -> LanguageServer:
        """The server for a file, started if necessary.

        Raises `NotSupported` if no server is known for such files, and `MissingTool` if none is
        installed. A start continues if the caller is cancelled.
        """
        if (server := self.running_for(path)) is not None:
            return server
        environment = shell_environment(self._shells)
        installed = await asyncio.to_thread(_find, path, environment["PATH"])
        await admit((installed.server.program, *installed.server.arguments))
        if self._closed:
            raise SandboxDied("The sandbox was closed")
        slot = self._slots.get(installed.server.program)
        if slot is None:
            slot = _ServerSlot(lambda: self._start(installed))
            self._slots[installed.server.program] = slot
        return await slot.running()

    def running_for(self, path: str) -> LanguageServer | None:
        """The server for a file, if it runs."""
        suffix = suffix_of(path)
        return next((each for each in self.running if suffix in each.kind.languages), None)

    async def synchronize(self, server: LanguageServer, read: ReadText) -> None:
        """Tell the server about all files that have changed since the last call."""
        async with server.in_use:
            changes = await asyncio.to_thread(server.files.scan)
            written = (*changes.created, *changes.changed)
            outside = [
                each for each in server.documents.paths() if server.files.identity(each) is None
            ]
            if not (written or changes.deleted or outside):
                return
            events = [
                {"uri": Path(path).as_uri(), "type": kind}
                for kind, paths in (
                    (1, changes.created),
                    (2, changes.changed),
                    (3, changes.deleted),
                )
                for path in paths
            ]
            for path in changes.deleted:
                server.documents.close(path)
            if events:
                server.notify("workspace/didChangeWatchedFiles", {"changes": events})
            known = set(server.documents.paths())
            sources = [each for each in written if suffix_of(each) in server.kind.languages]
            # Those that are open already come first: the server does not read them from the disk.
            sources.sort(key=lambda each: each not in known)
            shown = max(_MAX_OPENED, sum(each in known for each in sources))
            for path in (*sources[:shown], *outside):
                await self._show(server, path, read)

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        for slot in self._slots.values():
            if slot.starting.task is not None:
                slot.starting.task.cancel()
                await asyncio.wait([slot.starting.task])
            if slot.server is not None:
                await slot.server.aclose()

    async def _start(self, installed: InstalledServer) -> LanguageServer:
        await asyncio.to_thread(self._ensure_dir)
        root = await asyncio.to_thread(self._shells.working_dir.resolve)
        server = LanguageServer(
            installed,
            self._keeper,
            root=root,
            env=shell_environment(self._shells),
            account=self._shells.account,
        )
        try:
            await server.start()
        except BaseException:
            await server.aclose()
            raise
        return server

    async def _show(self, server: LanguageServer, path: str, read: ReadText) -> None:
        try:
            text = await asyncio.to_thread(read, path)
        except BasculeError:
            server.documents.close(path)  # removed meanwhile, or not text
            return
        server.documents.show(path, text)


def _find(path: str, search_path: str) -> InstalledServer:
    suffix = suffix_of(path)
    candidates = servers_for(suffix)
    if not candidates:
        raise NotSupported(
            f"No language server is known for {path}. The known languages are: "
            f"{', '.join(known_languages())}",
            kind="language",
        )
    found = find_server(suffix, search_path)
    if found is None:
        names = " or ".join(each.program for each in candidates)
        raise MissingTool(
            f"There is no language server for {suffix} files: {names} is not on the PATH. Install "
            f"it: {candidates[0].install}"
        )
    return found
