"""Opens the files of actions at their language servers, and sends requests about these files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from bascule.core.actions import Action
from bascule.core.errors import ActionTimedOut, InvalidPath
from bascule.sandbox.blocking_calls import InThread
from bascule.sandbox.files.file_actions import FileActions

from .documents import OpenDocument
from .running_servers import AdmitStart, RunningServers
from .server import LanguageServer
from .text_positions import Range, TextLines

_Result = TypeVar("_Result")

DEFAULT_TIMEOUT: Final = 60.0
"""Seconds for an action that has no timeout."""
_READY_SHARE: Final = 0.8
"""The part of the timeout in which a server has to become ready. The rest is for the answer."""
_REPORTED: Final = 0.5
"""Shorter waits, in seconds, are not reported."""


class WaitLimit:
    """The time that an action may take, from now on."""

    def __init__(self, action: Action) -> None:
        self.timeout = DEFAULT_TIMEOUT if action.timeout is None else action.timeout
        self._counts_questions = action.timeout is not None
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Timeout | None = None
        self.began = self._loop.time()

    @property
    def end(self) -> float:
        return self.began + self.timeout

    @property
    def ready_end(self) -> float:
        return self.began + self.timeout * _READY_SHARE

    @property
    def is_over(self) -> bool:
        return self._loop.time() >= self.end

    @asynccontextmanager
    async def reading(self, name: str = "") -> AsyncIterator[None]:
        """At the end of the time, cancel the block and raise `ActionTimedOut`."""
        try:
            async with asyncio.timeout_at(self.end) as self._timer:
                yield
        except TimeoutError:
            raise ActionTimedOut(
                f"{name or 'The language server'} did not answer within {self.timeout:g} seconds; "
                "nothing was changed. If it is still starting, that continues: ask again"
            ) from None

    @asynccontextmanager
    async def asking_a_person(self) -> AsyncIterator[None]:
        """Inside of `reading`, a block in which a person may be asked. The time limit does not end
        it, because the question has its own limit, whose error says that nobody answered.

        The time in the block counts only if the action has a timeout, because its sender stops
        waiting then.
        """
        assert self._timer is not None, "not inside of `reading`"
        timer, began = self._timer, self._loop.time()
        timer.reschedule(None)
        try:
            yield
        finally:
            if not self._counts_questions:
                self.began += self._loop.time() - began
            timer.reschedule(self.end)


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file that is open at its server."""

    shown_path: str
    server: LanguageServer
    document: OpenDocument
    limit: WaitLimit
    was_ready: bool
    """Whether the server was ready when the action began."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[_Result]):
    found: _Result
    waited: float = 0.0
    """Seconds of waiting for a server that was still starting; 0 below `_REPORTED`."""
    is_unsure: bool = False
    """The wait ended before the server was ready; the answer may be incomplete."""

    @property
    def note(self) -> str:
        """What an answer says about the wait; empty if there was none."""
        if self.is_unsure:
            return (
                f"After {self.waited:.1f} s the language server had not reported that it is ready; "
                "the answer may be incomplete. Ask again"
            )
        if self.waited:
            return (
                "The language server was still starting or loading; it was ready after "
                f"{self.waited:.1f} s"
            )
        return ""


class Questions:
    """Opens files and sends requests about them to their servers."""

    def __init__(
        self, servers: RunningServers, files: Callable[[], FileActions], in_thread: InThread
    ) -> None:
        """`files`: called in threads."""
        self.servers = servers
        self.files = files
        self.in_thread = in_thread

    async def open(
        self,
        path: str | None,
        cwd: str,
        limit: WaitLimit,
        admit: AdmitStart,
        place: Callable[[TextLines, str], Range] | None = None,
    ) -> OpenedFile:
        """Open a file at its server, which is started if necessary. The server has the current
        text of this file, and of all files that changed.

        With `place`, first checks that the location exists, so that a wrong one fails at once.
        """
        if not path:
            raise InvalidPath("A `path` is needed: the file to look at")

        async def admit_start(argv: Sequence[str]) -> None:
            async with limit.asking_a_person():
                await admit(argv)

        async with limit.reading():
            real, shown_path, text = await self.in_thread(self._read, path, cwd)
            if place is not None:
                place(TextLines(text), shown_path)
            known = self.servers.running_for(real)
            server = await self.servers.server_for(real, admit_start)
            was_ready = known is server and server.is_ready
            await self.synchronize(server)
            document = server.documents.get(real) or server.documents.show(real, text)
        return OpenedFile(shown_path, server, document, limit, was_ready)

    async def synchronize(self, server: LanguageServer) -> None:
        await self.servers.synchronize(server, lambda path: self.files().changes.read(path, "/"))

    async def ask(
        self, opened: OpenedFile, question: Callable[[], Awaitable[_Result]]
    ) -> Answer[_Result]:
        """Send a request when the server is ready, or when the time for that is over."""
        loop = asyncio.get_running_loop()
        server, limit = opened.server, opened.limit
        async with limit.reading(server.name):
            if not server.is_ready:
                try:
                    async with asyncio.timeout_at(limit.ready_end):
                        await server.wait_until_ready()
                except TimeoutError:
                    pass  # `is_unsure` says so
            is_unsure = not server.is_ready
            found = await question()
        waited = 0.0 if opened.was_ready else loop.time() - limit.began
        return Answer(found, round(waited, 1) if waited >= _REPORTED else 0.0, is_unsure)

    def _read(self, path: str, cwd: str) -> tuple[str, str, str]:
        files = self.files()
        text = files.changes.read(path, cwd)
        return str(files.paths.resolve(path, cwd)), files.paths.absolute(path, cwd), text
