"""Runs an action server until SIGTERM or SIGINT, as the only work of a process."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from bascule.core.tracing import Tracing
from bascule.sandbox.settings import SandboxSettings, ServerSettings
from bascule.serving.listener import stop_signals

from .server import SandboxServer

if TYPE_CHECKING:
    from .plugin import ServerPlugin


async def serve(
    server: ServerSettings,
    sandbox: SandboxSettings,
    *,
    on_started: Callable[[SandboxServer], None] | None = None,
    sock: socket.socket | None = None,
    stopped: asyncio.Event | None = None,
    plugin: ServerPlugin | None = None,
    tracing: Tracing | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or until `stopped` is set; then shut down gracefully."""
    with stop_signals(stopped) as stopping:
        async with SandboxServer(
            server, sandbox, sock=sock, plugin=plugin, tracing=tracing
        ) as running:
            if on_started is not None:
                on_started(running)
            await stopping.wait()


async def serve_until_orphaned(
    server: ServerSettings, sandbox: SandboxSettings, sock: socket.socket
) -> None:
    """Serve until end of file on stdin, which follows when the parent process exits."""
    orphaned = asyncio.Event()
    descriptor = sys.stdin.fileno()
    os.set_blocking(descriptor, False)

    def on_readable() -> None:
        if not os.read(descriptor, 4096):
            loop.remove_reader(descriptor)
            orphaned.set()

    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, on_readable)
    await serve(server, sandbox, sock=sock, stopped=orphaned)
