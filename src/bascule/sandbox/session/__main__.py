"""`python -m bascule.sandbox.session`: the first process of a session's sandbox.

A spawner starts it inside whatever holds the session (a namespace, a container) and writes a
`Launch` to its standard input, where no other process can read the key. It then serves on
`sandbox.sock` until SIGTERM, whatever becomes of the spawner.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import uvloop

from bascule.sandbox.server.serve import serve
from bascule.sandbox.settings import SandboxSettings, ServerSettings
from bascule.sandbox.shell.settings import ShellSettings

from .launch import Launch

SOCKET = "sandbox.sock"
"""The action server's, in `run_dir`."""


def main() -> None:
    launch = Launch.from_json(sys.stdin.buffer.readline())
    shells = ShellSettings(
        working_dir=Path(launch.working_dir),
        env=launch.environment,
        kind=launch.shells,
        state_dir=Path(launch.state_dir, "shells") if launch.shells == "tmux" else None,
    )
    server = ServerSettings(key=launch.key)
    uvloop.run(serve(server, SandboxSettings(shells=shells), sock=_listening(launch.run_dir)))


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
