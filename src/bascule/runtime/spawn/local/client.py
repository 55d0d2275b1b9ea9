"""The hub's client of a warden."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bascule.core.contracts import Closable
from bascule.core.errors import SandboxUnreachable
from bascule.wire.errors import error_from_wire

from .messages import LONGEST
from .settings import LocalSettings

OnStage = Callable[[str], None]


def start_warden(settings: LocalSettings) -> socket.socket:
    """Start a warden with our present rights; it exits when the returned socket is closed.

    For a hub that starts as root: start it, then drop the rights, then hand the socket to the
    spawner.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            _command(theirs), stdin=subprocess.PIPE, pass_fds=[theirs.fileno()], close_fds=True
        )
        assert process.stdin is not None
        with process.stdin as given:
            given.write(settings.to_json())
    process.returncode = 0  # it ends after us, or is the zombie of a process that ends
    return ours


async def warden_child(settings: LocalSettings) -> tuple[socket.socket, asyncio.subprocess.Process]:
    """Start a warden as a child process of this event loop."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = await asyncio.create_subprocess_exec(
            *_command(theirs), stdin=asyncio.subprocess.PIPE, pass_fds=[theirs.fileno()]
        )
    assert process.stdin is not None
    process.stdin.write(settings.to_json())
    process.stdin.close()
    return ours, process


def _command(link: socket.socket) -> list[str]:
    return [sys.executable, "-P", "-m", f"{__package__}.warden", str(link.fileno())]


class WardenClient(Closable):
    """Sends requests over a connected socket.

    If it breaks, pending ones raise `SandboxUnreachable`.
    """

    def __init__(self) -> None:
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._waiting: dict[int, tuple[asyncio.Future[Any], OnStage | None]] = {}
        self._numbers = itertools.count(1)

    @property
    def is_open(self) -> bool:
        return self._reading is not None and not self._reading.done()

    async def connect(self, link: socket.socket | Path) -> None:
        if isinstance(link, Path):
            try:
                reader, writer = await asyncio.open_unix_connection(link, limit=LONGEST)
            except OSError as error:
                raise SandboxUnreachable(f"No warden answers at {link}: {error}") from error
        else:
            link.setblocking(False)  # noqa: ASYNC240  # a socket
            reader, writer = await asyncio.open_connection(sock=link, limit=LONGEST)
        self._writer = writer
        self._reading = asyncio.create_task(self._read(reader))

    async def ask(self, do: str, *, on_stage: OnStage | None = None, **given: Any) -> Any:
        """Send a request. Cancelling makes the warden undo it, and returns when that is done."""
        number = next(self._numbers)
        answer = asyncio.get_running_loop().create_future()
        self._waiting[number] = (answer, on_stage)
        try:
            self._send({"id": number, "do": do, "with": given})
            try:
                return await asyncio.shield(answer)
            except asyncio.CancelledError:
                with contextlib.suppress(Exception):  # whatever it is, nobody waits for it
                    self._send({"id": number, "do": "cancel"})
                    await answer
                raise
        finally:
            del self._waiting[number]

    async def aclose(self) -> None:
        if self._writer is None or self._reading is None:
            return
        self._writer.close()
        await asyncio.gather(self._reading, return_exceptions=True)

    def _send(self, message: dict[str, Any]) -> None:
        if self._writer is None or not self.is_open:
            raise SandboxUnreachable("The warden is gone")
        self._writer.write(json.dumps(message).encode() + b"\n")

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                while line := await reader.readline():
                    self._on_told(json.loads(line))
        finally:
            for answer, _ in self._waiting.values():
                if not answer.done():
                    answer.set_exception(SandboxUnreachable("The warden went away"))

    def _on_told(self, told: dict[str, Any]) -> None:
        answer, on_stage = self._waiting.get(told["id"], (None, None))
        if answer is None or answer.done():
            return
        if "stage" in told:
            if on_stage is not None:
                on_stage(told["stage"])
        elif "error" in told:
            answer.set_exception(error_from_wire(told["error"]))
        elif "cancelled" in told:
            answer.set_exception(SandboxUnreachable("The warden was told to leave it"))
        else:
            answer.set_result(told["answer"])
