"""Runs the zygote for the warden: starts its process, orders sandboxes, receives exit statuses."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import sys
from collections.abc import Mapping
from typing import Any, Self

from bascule.core.contracts import Closable
from bascule.core.errors import SandboxStartFailed

from .processes import ProcessHandle

logger = logging.getLogger(__name__)

_STATUS_TIMEOUT = 1.0
"""Seconds to wait for the zygote to report the status of an ended process."""


class PendingSandbox:
    """A sandbox being started: reports its steps, and can be aborted."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls) -> tuple[Self, socket.socket]:
        """Also returns the other end of the connection, for the processes that report. The caller
        closes this end when the processes have inherited it."""
        warden_end, sandbox_end = socket.socketpair()
        return cls(*await asyncio.open_connection(sock=warden_end)), sandbox_end

    async def next_step(self) -> Mapping[str, int] | None:
        """The next finished step; None when no process is left to report."""
        line = await self._reader.readline()
        step: Mapping[str, int] | None = json.loads(line) if line else None
        return step

    def abort(self) -> None:
        """Make the sandbox end before it answers.

        `next_step` returns steps until the sandbox has ended or reports `ready`.
        """
        if self._writer.can_write_eof() and not self._writer.is_closing():
            self._writer.write_eof()

    def close(self) -> None:
        self._writer.close()


class Zygote(Closable):
    """Starts the zygote's process with the first order, and again if the process has died.

    Loading takes half a second; `warm` starts the process without waiting. Closing leaves sandboxes
    running.
    """

    def __init__(self) -> None:
        self._link: socket.socket | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()
        self._sending = asyncio.Lock()
        self._start_up: asyncio.Task[None] | None = None
        self._statuses: dict[int, asyncio.Future[int]] = {}

    async def warm(self) -> None:
        """Start the process, so that it begins to load."""
        async with self._starting:
            if self._start_up is not None:  # started by a caller that was cancelled
                await asyncio.wait({self._start_up})
            if self._link is None:
                # Continues if we are cancelled: otherwise a process without a link would be left.
                self._start_up = asyncio.create_task(self._start())
                await asyncio.shield(self._start_up)

    async def order(self, order: Mapping[str, Any], descriptors: Mapping[str, int]) -> None:
        """Order a sandbox.

        The caller closes the `descriptors`. If this call is cancelled, nothing was sent.
        """
        message = json.dumps({**order, "given": list(descriptors)}).encode()
        for _ in range(2):
            await self.warm()
            assert self._link is not None
            try:
                return await self._send(self._link, message, list(descriptors.values()))
            except (BrokenPipeError, ConnectionResetError):
                self._drop_link()
        raise SandboxStartFailed("The zygote, which forks sandboxes, exits right after its start")

    async def status(self, process: ProcessHandle) -> int | None:
        """Wait for the exit status. None if another zygote forked the process, or the status is
        unknown."""
        status = self._statuses.setdefault(process.pid, asyncio.get_running_loop().create_future())
        try:
            await process.ended()
            async with asyncio.timeout(_STATUS_TIMEOUT if self._link is not None else 0):
                return await asyncio.shield(status)
        except TimeoutError:
            return None
        finally:
            self._statuses.pop(process.pid, None)

    async def aclose(self) -> None:
        self._drop_link()
        if self._process is not None:
            await self._process.wait()

    async def _send(self, link: socket.socket, message: bytes, descriptors: list[int]) -> None:
        async with self._sending:
            while True:
                try:
                    socket.send_fds(link, [message], descriptors, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    await _wait_until_writable(link)
                else:
                    return

    async def _start(self) -> None:
        warden_socket, zygote_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with zygote_socket:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", f"{__package__}._zygote_main"),
                *(str(zygote_socket.fileno()), str(os.getpid())),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[zygote_socket.fileno()],
                start_new_session=True,
                env=_environment(),
            )
        self._link = warden_socket
        descriptor = warden_socket.fileno()
        asyncio.get_running_loop().add_reader(descriptor, self._on_report, warden_socket)

    def _on_report(self, link: socket.socket) -> None:
        message = b""
        with contextlib.suppress(ConnectionResetError):
            message = link.recv(4096, socket.MSG_DONTWAIT)
        if not message:
            logger.warning("the zygote has ended; its sandboxes keep running")
            if link is self._link:
                self._drop_link()
            return
        report = json.loads(message)
        if (status := self._statuses.get(report["pid"])) is not None and not status.done():
            status.set_result(report["status"])

    def _drop_link(self) -> None:
        if self._link is not None:
            asyncio.get_running_loop().remove_reader(self._link.fileno())
            self._link.close()
            self._link = None


async def _wait_until_writable(link: socket.socket) -> None:
    """Wait until the socket can take a message."""
    loop, descriptor = asyncio.get_running_loop(), link.fileno()
    writable = asyncio.Event()
    loop.add_writer(descriptor, writable.set)
    try:
        await writable.wait()
    finally:
        loop.remove_writer(descriptor)


def _environment() -> dict[str, str]:
    """A minimal environment: a sandbox can read the initial environment of its server."""
    inherited_names = ("PYTHONPATH", "LD_LIBRARY_PATH", "LANG")
    inherited = {name: os.environ[name] for name in inherited_names if name in os.environ}
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1", **inherited}
