"""`python -m bascule.sandbox.session`: the first process of a session's sandbox.

A spawner starts it inside whatever holds the session (a namespace, a container) and writes a
`Launch` to its standard input, where no other process can read the key. It then serves on
`sandbox.sock` until SIGTERM, whatever becomes of the spawner.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import uvloop

from bascule.sandbox.server.serve import serve
from bascule.sandbox.server.server import SandboxServer
from bascule.sandbox.settings import SandboxSettings, ServerSettings
from bascule.sandbox.shell.settings import ShellSettings

from .egress import Forwarder, proxy_environment
from .launch import Launch

SOCKET = "sandbox.sock"
"""The action server's, in `run_dir`."""


def main(on_started: Callable[[SandboxServer], None] | None = None) -> None:
    """`on_started` is called once it answers; a spawner that forks it is told so."""
    launch = Launch.from_json(sys.stdin.buffer.readline())
    shells = ShellSettings(
        working_dir=Path(launch.working_dir),
        env={**launch.environment, **(proxy_environment() if launch.egress_socket else {})},
        kind=launch.shells,
        state_dir=Path(launch.state_dir, "shells") if launch.shells == "tmux" else None,
    )
    server = ServerSettings(key=launch.key)
    sandbox, sock = SandboxSettings(shells=shells), _listening(launch.run_dir)
    uvloop.run(_serve(launch, serve(server, sandbox, sock=sock, on_started=on_started)))


async def _serve(launch: Launch, serving: Coroutine[Any, Any, None]) -> None:
    """With what the sandbox needs beside its action server."""
    async with contextlib.AsyncExitStack() as beside:
        if launch.egress_socket:
            forwarder = await beside.enter_async_context(Forwarder(launch.egress_socket))
            await forwarder.open()
        await serving


def _listening(run_dir: str) -> socket.socket:
    """The socket, in place of one that an earlier sandbox left; its group may connect."""
    path = Path(run_dir, SOCKET)
    path.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(str(path))
    path.chmod(0o660)
    return sock


if __name__ == "__main__":
    main()
