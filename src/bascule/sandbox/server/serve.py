"""Runs an action server until SIGTERM or SIGINT, as the only work of a process."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable

from bascule.sandbox.settings import SandboxSettings, ServerSettings

from .plugin import ServerPlugin
from .server import SandboxServer


async def serve(
    server: ServerSettings,
    sandbox: SandboxSettings,
    *,
    on_started: Callable[[SandboxServer], None] | None = None,
    sock: socket.socket | None = None,
    stopped: asyncio.Event | None = None,
    plugin: ServerPlugin | None = None,
) -> None:
    """Serve until a SIGTERM or SIGINT, or until `stopped` is set; then stop in good order."""
    stopped = stopped or asyncio.Event()
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, stopped.set)
    try:
        async with SandboxServer(server, sandbox, sock=sock, plugin=plugin) as running:
            if on_started is not None:
                on_started(running)
            await stopped.wait()
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


async def serve_until_orphaned(
    server: ServerSettings, sandbox: SandboxSettings, sock: socket.socket
) -> None:
    """Serve until standard input ends, which it does when whoever holds the other end dies."""
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
