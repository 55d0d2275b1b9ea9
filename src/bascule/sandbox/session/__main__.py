"""`python -m bascule.sandbox.session`: the first process of a session's sandbox.

A spawner starts it inside the session's namespace or container and writes a `SandboxLaunch` to its
stdin, where no other process can read the key. The sandbox then serves on `sandbox.sock` and prints
a line to stdout when it is ready. It runs until SIGTERM, even if the spawner exits.
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
from bascule.serving.sockets import unix_listener

from . import seccomp
from .egress import forward_to_proxy, proxy_environment
from .launch import CHECKPOINT_BYTES, SandboxLaunch
from .openhands_image import prelude_of, python_of, soft_timeout, variables_of
from .services import SessionServices

SOCKET = "sandbox.sock"
"""Name of the action server's socket in `run_dir`."""

OnStarted = Callable[[SandboxServer], None]


def main(on_started: OnStarted | None = None) -> None:
    """Run the sandbox. Calls `on_started` once the sandbox answers; a spawner that forks this
    process uses it."""
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
            **variables_of(launch.file_layout, launch.environment),
        },
        kind=launch.shells,
        state_dir=Path(launch.state_dir, "shells") if launch.shells == "tmux" else None,
        soft_timeout=soft_timeout(launch.environment, ShellSettings().soft_timeout),
    )
    server = ServerSettings(key=launch.key)
    sandbox = SandboxSettings(
        shells=shells,
        browser=BrowserSettings(enabled=launch.browser, refused=services.refused),
        checkpoints=launch.checkpoint_store,
        checkpoint_bytes=CHECKPOINT_BYTES,
        ipython=IPythonSettings(
            python=python_of(launch.file_layout), prelude=prelude_of(launch.file_layout)
        ),
    )
    async with contextlib.AsyncExitStack() as beside:
        if launch.egress_socket:
            await beside.enter_async_context(forward_to_proxy(launch.egress_socket))
        sock = unix_listener(Path(launch.run_dir, SOCKET))
        await serve(server, sandbox, sock=sock, plugin=services, on_started=on_started)


def _announce(_server: SandboxServer) -> None:
    sys.stdout.write(f"answers on {SOCKET}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(_announce)
