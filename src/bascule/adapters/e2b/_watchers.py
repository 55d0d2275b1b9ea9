"""Watchers of directories, for clients that poll for changes because they cannot keep a stream."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from bascule.core.contracts import Closable
from bascule.core.errors import BasculeError, InvalidState, NoSuchPath, QuotaExceeded
from bascule.core.sessions import SessionId
from bascule.hub.leases import TokenLeases
from bascule.hub.sessions.sandbox_messages import FileChangeMessage
from bascule.hub.sessions.service import Sessions

from ._sandbox import OpenSandbox

_MAX_WATCHERS: Final = 64
"""Maximum number of watchers of one sandbox."""
_MAX_CHANGES: Final = 10_000
"""Maximum number of changes that are kept for the client. One more ends the watcher."""
_MAX_BYTES: Final = 1 << 20
"""Maximum bytes of the paths of these changes."""


@dataclass(slots=True)
class _Watcher:
    session_id: SessionId
    changes: deque[FileChangeMessage] = field(default_factory=deque)
    path_bytes: int = 0
    """Bytes of the paths of `changes`."""
    error: BasculeError | None = None
    started: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        return self.task is not None and self.task.done()

    def add(self, change: FileChangeMessage) -> None:
        """Raises `InvalidState` if too many changes were not fetched."""
        size = self.path_bytes + len(change.path.encode(errors="surrogatepass"))
        if len(self.changes) == _MAX_CHANGES or size > _MAX_BYTES:
            raise InvalidState(
                f"{len(self.changes)} changes were not fetched; create the watcher again"
            )
        self.changes.append(change)
        self.path_bytes = size

    def take(self) -> Sequence[FileChangeMessage]:
        """The changes since the last call."""
        found = list(self.changes)
        self.changes.clear()
        self.path_bytes = 0
        return found


class Watchers(Closable):
    """The watchers of all sandboxes. They end with their sandbox, and with the token of their
    creator."""

    def __init__(self, leases: TokenLeases, sessions: Sessions) -> None:
        self._leases = leases
        self._sessions = sessions
        self._watchers: dict[str, _Watcher] = {}

    async def aclose(self) -> None:
        tasks = [each.task for each in self._watchers.values() if each.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def create(self, sandbox: OpenSandbox, path: str, *, recursive: bool) -> str:
        """Start to watch a directory. Returns the id of the watcher."""
        for key, each in list(self._watchers.items()):
            is_own = each.session_id == sandbox.id
            if each.is_over and (is_own or self._sessions.owner_of(each.session_id) is None):
                del self._watchers[key]
        own = sum(each.session_id == sandbox.id for each in self._watchers.values())
        if own >= _MAX_WATCHERS:
            raise QuotaExceeded(
                f"The sandbox has {_MAX_WATCHERS} watchers, the maximum; remove one first"
            )
        watcher_id, watcher = secrets.token_hex(12), _Watcher(sandbox.id)
        self._watchers[watcher_id] = watcher
        watcher.task = asyncio.create_task(self._run(watcher, sandbox, path, recursive=recursive))
        await watcher.started.wait()
        if watcher.error is not None:
            del self._watchers[watcher_id]
            raise watcher.error
        return watcher_id

    def take(self, sandbox: OpenSandbox, watcher_id: str) -> Sequence[FileChangeMessage]:
        """The changes since the last call. Raises the error that ended the watcher."""
        watcher = self._find(sandbox, watcher_id)
        found = watcher.take()
        if not found and watcher.error is not None:
            raise watcher.error
        return found

    async def remove(self, sandbox: OpenSandbox, watcher_id: str) -> None:
        watcher = self._find(sandbox, watcher_id)
        del self._watchers[watcher_id]
        assert watcher.task is not None
        watcher.task.cancel()
        await asyncio.wait({watcher.task})

    def _find(self, sandbox: OpenSandbox, watcher_id: str) -> _Watcher:
        watcher = self._watchers.get(watcher_id)
        if watcher is None or watcher.session_id != sandbox.id:
            raise NoSuchPath(f"The sandbox has no watcher {watcher_id!r}")
        return watcher

    async def _run(
        self, watcher: _Watcher, sandbox: OpenSandbox, path: str, *, recursive: bool
    ) -> None:
        try:
            async with (
                self._sessions.access_leases.scope(sandbox.who, sandbox.id),
                self._leases.scope(sandbox.who),
            ):
                client = await sandbox.client()
                async with aclosing(client.watch_files(path, recursive=recursive)) as changes:
                    async for change in changes:
                        watcher.started.set()
                        if change is not None:
                            watcher.add(change)
            watcher.error = InvalidState("The sandbox has ended, and the watcher with it")
        except BasculeError as error:
            watcher.error = error
        finally:
            watcher.started.set()
