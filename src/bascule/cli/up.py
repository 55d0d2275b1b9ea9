"""`bascule up`: a sandbox on this machine, with an address, a key and a prompt."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import signal
import stat
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from bascule.core.errors import InvalidSetting

from .logs import configure_logging
from .stopping import stops_cleanly


def up(
    working_dir: Annotated[
        Path, typer.Option(help="The workspace; made when it is not there.")
    ] = Path("workspace"),
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 0,
    no_prompt: Annotated[
        bool, typer.Option("--no-prompt", help="Only serve, until SIGINT or SIGTERM.")
    ] = False,
) -> int:
    """Start a sandbox that programs can use at an address, and type commands into it yourself.

    At a terminal there is a prompt: Ctrl-C interrupts a command, Ctrl-D or `exit` leaves, and all
    that was started ends. Commands are also read from a file or pipe; with no input at all
    (/dev/null) it serves as with --no-prompt. The key is SESSION_API_KEY, or else a random one.
    """
    from bascule.runtime import RemoteRuntime
    from bascule.sandbox.server.server import SandboxServer
    from bascule.sandbox.settings import SandboxSettings, ServerSettings
    from bascule.sandbox.shell.settings import ShellSettings

    from .loop import LoopThread
    from .prompt import Prompt

    configure_logging("warning")
    workspace = _workspace(working_dir)
    key = os.environ.get("SESSION_API_KEY") or secrets.token_urlsafe(24)
    server_settings = ServerSettings(key=key, port=port)
    sandbox = SandboxSettings(shells=ShellSettings(working_dir=workspace))
    # The server has a loop of its own: a prompt whose terminal is slow must not hold up others.
    with (
        stops_cleanly(),
        LoopThread() as server_loop,
        server_loop.hold(SandboxServer(server_settings, sandbox)) as server,
    ):
        _introduce(workspace, server.url, key)
        if no_prompt or _nobody_types():
            return _wait_for_signal()
        with (
            LoopThread() as loop,
            loop.hold(RemoteRuntime(server.url, key, default_timeout=None)) as runtime,
        ):
            return Prompt(runtime, loop).converse()


def _workspace(directory: Path) -> Path:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidSetting(f"the workspace cannot be made: {directory}: {error}") from error
    return directory.resolve()


def _nobody_types() -> bool:
    """Stdin is closed, or /dev/null as under a service manager: a device, but no terminal."""
    if sys.stdin is None:
        return True
    return not sys.stdin.isatty() and stat.S_ISCHR(os.fstat(sys.stdin.fileno()).st_mode)


def _wait_for_signal() -> int:
    stopped = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stopped.set())
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    stopped.wait()
    return 0


def _introduce(workspace: Path, url: str, key: str) -> None:
    """On stderr, so that stdout has only what commands print."""
    from rich.console import Console
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    facts = Table.grid(padding=(0, 2))
    for name, value in (("workspace", str(workspace)), ("address", url), ("key", key)):
        facts.add_row(Text(name, style="dim"), Text(value, style="bold", overflow="fold"))
    console = Console(stderr=True, highlight=False)
    console.print(Panel.fit(facts, title="bascule", title_align="left"))
    console.print("[dim]From another terminal:[/]")
    # Outside the frame and unwrapped, so that it can be copied.
    console.print(Text(_example(url, key)), soft_wrap=True)


def _example(url: str, key: str) -> str:
    return f"  SESSION_API_KEY={shlex.quote(key)} {_ourselves()} exec --url {url} 'ls -la'"


def _ourselves() -> str:
    """How the person who started this can start us again."""
    if shutil.which("bascule"):
        return "bascule"
    started = Path(sys.argv[0])
    if started.name == "bascule":
        return shlex.quote(str(started))
    return f"{shlex.quote(sys.executable)} -m bascule"
