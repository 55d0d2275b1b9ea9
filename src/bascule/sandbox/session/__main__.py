"""`python -m bascule.sandbox.session`: the first process of a session's sandbox.

A spawner starts it inside whatever holds the session (a namespace, a container) and writes a
`SandboxLaunch` to its standard input, where no other process can read the key. It then serves on
`sandbox.sock`, says so in a line on its standard output, and goes on until SIGTERM, whatever
becomes of the spawner.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

import uvloop

from bascule.sandbox.browser.settings import BrowserSettings
from bascule.sandbox.ipython.settings import IPythonSettings
from bascule.sandbox.server.serve import serve
from bascule.sandbox.server.server import SandboxServer
from bascule.sandbox.settings import SandboxSettings, ServerSettings
from bascule.sandbox.shell.settings import ShellSettings

from . import seccomp
from .egress import proxy_environment, way_out
from .launch import SandboxLaunch
from .openhands_image import environment_of, prelude_of, python_of, soft_timeout
from .ports import unix_listener
from .services import SessionServices

SOCKET = "sandbox.sock"
"""The action server's, in `run_dir`."""

OnStarted = Callable[[SandboxServer], None]


def main(on_started: OnStarted | None = None) -> None:
    """`on_started` is called once it answers; a spawner that forks it is told so."""
    launch = SandboxLaunch.from_json(sys.stdin.buffer.readline())
    if launch.confine:
        seccomp.confine(set_id_files=launch.set_id_files)
    uvloop.run(_serve(launch, on_started))


async def _serve(launch: SandboxLaunch, on_started: OnStarted | None) -> None:
    services = SessionServices(launch)
    proxies = proxy_environment() if launch.egress_socket else {}
    shells = ShellSettings(
        working_dir=Path(launch.working_dir),
        env={
            **services.prepare(),
            **proxies,
            **environment_of(launch.likeness, launch.environment),
        },
        kind=launch.shells,
        state_dir=Path(launch.state_dir, "shells") if launch.shells == "tmux" else None,
        soft_timeout=soft_timeout(launch.environment, ShellSettings().soft_timeout),
    )
    server = ServerSettings(key=launch.key)
    sandbox = SandboxSettings(
        shells=shells,
        browser=BrowserSettings(enabled=launch.browser, refused=services.refused),
        ipython=IPythonSettings(
            python=python_of(launch.likeness), prelude=prelude_of(launch.likeness)
        ),
    )
    async with contextlib.AsyncExitStack() as beside:
        if launch.egress_socket:
            await beside.enter_async_context(way_out(launch.egress_socket))
        sock = unix_listener(Path(launch.run_dir, SOCKET))
        await serve(server, sandbox, sock=sock, plugin=services, on_started=on_started)


def _say_so(_server: SandboxServer) -> None:
    sys.stdout.write(f"answers on {SOCKET}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(_say_so)
