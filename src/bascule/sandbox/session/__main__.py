"""`python -m bascule.sandbox.session`: the first process of a session's sandbox.

A spawner starts it inside whatever holds the session (a namespace, a container) and writes a
`Launch` to its standard input, where no other process can read the key. It then serves on
`sandbox.sock` until SIGTERM, whatever becomes of the spawner.
"""

from __future__ import annotations

import sys
from pathlib import Path

import uvloop

from bascule.sandbox.browser.settings import BrowserSettings
from bascule.sandbox.server.serve import serve
from bascule.sandbox.settings import SandboxSettings, ServerSettings
from bascule.sandbox.shell.settings import ShellSettings

from .annex import SessionAnnex
from .launch import Launch
from .ports import unix_listener

SOCKET = "sandbox.sock"
"""The action server's, in `run_dir`."""


def main() -> None:
    launch = Launch.from_json(sys.stdin.buffer.readline())
    annex = SessionAnnex(launch)
    variables = annex.prepare()
    shells = ShellSettings(
        working_dir=Path(launch.working_dir),
        env={**variables, **launch.environment},
        kind=launch.shells,
        state_dir=Path(launch.state_dir, "shells") if launch.shells == "tmux" else None,
    )
    server = ServerSettings(key=launch.key)
    sock = unix_listener(Path(launch.run_dir, SOCKET))
    sandbox = SandboxSettings(shells=shells, browser=BrowserSettings(refused=annex.refused))
    uvloop.run(serve(server, sandbox, sock=sock, annex=annex))


if __name__ == "__main__":
    main()
