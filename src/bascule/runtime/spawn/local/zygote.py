"""The warden's side of the zygote: start it, order sandboxes of it, learn who ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from bascule.core.contracts import Closable
from bascule.core.errors import SandboxStartFailed

from .processes import Process

logger = logging.getLogger(__name__)

_STATUS = 1.0
"""Seconds in which the zygote tells the status of a process that has ended, if it still can."""


class Zygote(Closable):
    """Starts its process with the first order, and again when that has died.

    Loading takes half a second; `warm` begins it without waiting. Sandboxes live on when we close.
    """

    def __init__(self) -> None:
        self._link: socket.socket | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()
        self._statuses: dict[int, asyncio.Future[int]] = {}

    async def warm(self) -> None:
        """Have it loaded, or about to be."""
        async with self._starting:
            if self._link is None:
                await self._start()

    @asynccontextmanager
    async def fork(
        self, order: Mapping[str, Any], given: Mapping[str, int]
    ) -> AsyncIterator[asyncio.StreamReader]:
        """Order a sandbox; what is yielded has a line of JSON for each thing that was done.

        It ends early when something failed. `given` stays the caller's to close.
        """
        reading, writing = os.pipe2(os.O_CLOEXEC)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", 0)
        )
        try:
            try:
                await self._send(order, {**given, "result": writing})
            finally:
                os.close(writing)
            yield reader
        finally:
            transport.close()

    async def status(self, process: Process) -> int | None:
        """Wait until it has ended. None: it was not forked by this zygote, or nobody can tell."""
        told = self._statuses.setdefault(process.pid, asyncio.get_running_loop().create_future())
        try:
            await process.ended()
            async with asyncio.timeout(_STATUS if self._link is not None else 0):
                return await asyncio.shield(told)
        except TimeoutError:
            return None
        finally:
            self._statuses.pop(process.pid, None)

    async def aclose(self) -> None:
        self._drop_link()
        if self._process is not None:
            await self._process.wait()

    async def _send(self, order: Mapping[str, Any], given: Mapping[str, int]) -> None:
        message = json.dumps({**order, "given": list(given)}).encode()
        for _ in range(2):
            await self.warm()
            assert self._link is not None
            try:
                await asyncio.to_thread(
                    socket.send_fds, self._link, [message], list(given.values())
                )
            except (BrokenPipeError, ConnectionResetError):
                self._drop_link()
            else:
                return
        raise SandboxStartFailed("The process that makes sandboxes dies as soon as it is started")

    async def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", f"{__package__}._zygote_main", str(theirs.fileno())),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env=_environment(),
            )
        self._link = ours
        descriptor = ours.fileno()
        asyncio.get_running_loop().add_reader(descriptor, self._on_told, ours)

    def _on_told(self, link: socket.socket) -> None:
        message = b""
        with contextlib.suppress(ConnectionResetError):
            message = link.recv(4096, socket.MSG_DONTWAIT)
        if not message:
            logger.warning("the process that makes sandboxes has died; those it made go on")
            if link is self._link:
                self._drop_link()
            return
        told = json.loads(message)
        if (waiting := self._statuses.get(told["pid"])) is not None and not waiting.done():
            waiting.set_result(told["status"])

    def _drop_link(self) -> None:
        if self._link is not None:
            asyncio.get_running_loop().remove_reader(self._link.fileno())
            self._link.close()
            self._link = None


def _environment() -> dict[str, str]:
    """Nothing of ours: a sandbox can read with what environment its server was started."""
    kept = ("PYTHONPATH", "LD_LIBRARY_PATH", "LANG")
    given = {name: os.environ[name] for name in kept if name in os.environ}
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1", **given}
