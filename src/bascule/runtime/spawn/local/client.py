"""Sends a hub's requests to a warden, and starts a warden as a child process."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bascule.core.contracts import Closable
from bascule.core.errors import SandboxUnreachable
from bascule.link.json_lines import JsonLineRequests, JsonLines
from bascule.wire.errors import error_from_wire

from .messages import MAX_LINE_BYTES
from .settings import LocalSettings

OnStage = Callable[[str], None]


def start_warden(settings: LocalSettings) -> socket.socket:
    """Start a warden with our current rights. The warden exits when the returned socket is closed.

    For a hub that starts as root: start the warden, drop the rights, then pass the socket to the
    spawner.
    """
    hub_socket, warden_socket = socket.socketpair()
    with warden_socket:
        process = subprocess.Popen(
            _command(warden_socket),
            stdin=subprocess.PIPE,
            pass_fds=[warden_socket.fileno()],
            close_fds=True,
        )
        assert process.stdin is not None
        with process.stdin as warden_stdin:
            warden_stdin.write(settings.to_json())
    process.returncode = 0  # nobody waits for the warden: it ends with this process or after it
    return hub_socket


async def warden_child(settings: LocalSettings) -> tuple[socket.socket, asyncio.subprocess.Process]:
    """Start a warden as a child process of this event loop."""
    hub_socket, warden_socket = socket.socketpair()
    with warden_socket:
        process = await asyncio.create_subprocess_exec(
            *_command(warden_socket),
            stdin=asyncio.subprocess.PIPE,
            pass_fds=[warden_socket.fileno()],
        )
    assert process.stdin is not None
    process.stdin.write(settings.to_json())
    process.stdin.close()
    return hub_socket, process


def _command(link: socket.socket) -> list[str]:
    return [sys.executable, "-P", "-m", f"{__package__}.warden", str(link.fileno())]


class WardenClient(Closable):
    """Sends requests over a connected socket.

    If the connection is lost, pending requests raise `SandboxUnreachable`.
    """

    def __init__(self) -> None:
        self._requests: JsonLineRequests | None = None

    @property
    def is_open(self) -> bool:
        return self._requests is not None and self._requests.is_open

    async def connect(self, link: socket.socket | Path) -> None:
        if isinstance(link, Path):
            try:
                streams = await asyncio.open_unix_connection(link, limit=MAX_LINE_BYTES)
            except OSError as error:
                raise SandboxUnreachable(f"No warden answers at {link}: {error}") from error
            lines = JsonLines(*streams)
        else:
            lines = await JsonLines.open(link, limit=MAX_LINE_BYTES)
        self._requests = JsonLineRequests(
            lines, lost=_lost, is_answer=lambda message: "stage" not in message
        )

    async def request(self, do: str, *, on_stage: OnStage | None = None, **params: Any) -> Any:
        """Send a request and return its answer. Cancelling makes the warden undo the request, and
        waits until this is done."""
        if self._requests is None:
            raise _lost()
        on_progress = None if on_stage is None else lambda message: on_stage(message["stage"])
        with self._requests.begin({"do": do, "with": params}, on_progress=on_progress) as pending:
            try:
                answer = await pending.answer()
            except asyncio.CancelledError:
                pending.cancel({"do": "cancel"})
                await pending.settled()
                raise
        if "error" in answer:
            raise error_from_wire(answer["error"])
        if "cancelled" in answer:
            raise SandboxUnreachable("The warden cancelled the request")
        return answer["answer"]

    async def aclose(self) -> None:
        if self._requests is not None:
            await self._requests.aclose()


def _lost() -> SandboxUnreachable:
    return SandboxUnreachable("The warden has ended")
