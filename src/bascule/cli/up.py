"""`bascule up`: a sandbox with a prompt, a hub, and VS Code in the browser, on this machine."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import stat
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bascule.core.errors import InvalidSetting

from .introduction import Introduction, waiting
from .logs import configure_logging
from .stopping import stops_cleanly

if TYPE_CHECKING:
    from .workbench import Workbench

_WORKSPACE = Path("workspace")


def up(
    working_dir: Annotated[
        Path | None,
        typer.Option(help="The workspace, made when it is not there; by default ./workspace."),
    ] = None,
    port: Annotated[
        int,
        typer.Option(min=0, max=65535, help="Port of the sandbox; 0 takes a free one."),
    ] = 0,
    editor: Annotated[
        bool | None,
        typer.Option(
            "--editor/--no-editor",
            help="Start hub and VS Code too; by default unless commands come from a file or pipe.",
            show_default=False,
        ),
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Do not open a browser; only print the address.")
    ] = False,
    shells: Annotated[
        str | None,
        typer.Option(
            envvar="BASCULE_SHELLS",
            help="Kind of shells: pty, or tmux, which `bascule attach` shows; NAME=KIND for one.",
            show_default=False,
        ),
    ] = None,
    no_prompt: Annotated[
        bool, typer.Option("--no-prompt", help="Only serve, until SIGINT or SIGTERM.")
    ] = False,
) -> int:
    """Start a sandbox to type commands into, and a VS Code in the browser for agents to act in.

    At a terminal there is a prompt: Ctrl-C interrupts a command, Ctrl-D or `exit` leaves, and all
    that was started ends. Commands are also read from a file or pipe; with no input at all
    (/dev/null) it serves as with --no-prompt. The sandbox's key is SESSION_API_KEY, or else a
    random one; the hub's token is shown by `bascule token`. A browser is opened where there is a
    display or BROWSER names one.
    """
    from bascule.runtime import RemoteRuntime
    from bascule.sandbox.server.server import SandboxServer
    from bascule.sandbox.settings import SandboxSettings, ServerSettings
    from bascule.sandbox.shell.settings import ShellSettings

    from .loop import LoopThread
    from .prompt import Prompt
    from .shell_kinds import with_kinds

    configure_logging("warning")
    workspace = _workspace(working_dir or _WORKSPACE)
    serves = no_prompt or _nobody_types()
    key = os.environ.get("SESSION_API_KEY") or secrets.token_urlsafe(24)
    server_settings = ServerSettings(key=key, port=port)
    kinds = with_kinds(ShellSettings(working_dir=workspace), shells, os.environ)
    sandbox = SandboxSettings(shells=kinds)
    with_editor = editor if editor is not None else serves or sys.stdin.isatty()
    # The servers have a loop of their own: a prompt whose terminal is slow must not hold up others.
    with (
        stops_cleanly(),
        LoopThread() as server_loop,
        contextlib.ExitStack() as stack,
    ):
        server = stack.enter_context(server_loop.hold(SandboxServer(server_settings, sandbox)))
        introduction = Introduction(workspace, sandbox_url=server.url, key=key)
        if with_editor:
            with waiting("starting VS Code"):
                bench = _workbench(workspace, is_ours=working_dir is None)
                stack.enter_context(server_loop.hold(bench))
            for url in filter(None, (bench.hub_url, bench.local_hub_url, bench.vscode_url)):
                server.keep_from_pages(url)
            introduction.tell_of(bench, open_browser=not no_browser)
        introduction.show()
        if serves:
            return _wait_for_signal()
        with (
            LoopThread() as loop,
            loop.hold(RemoteRuntime(server.url, key, default_timeout=None)) as runtime,
        ):
            return Prompt(runtime, loop).converse()


def _workbench(workspace: Path, *, is_ours: bool) -> Workbench:
    """VS Code asks whether to trust a folder, unless it is empty or the one we made."""
    from bascule.hub.tokens import admin_token

    from .hub_settings import load
    from .workbench import Workbench

    settings = load(None, os.environ, {})
    token = os.environ.get("BASCULE_TOKEN") or admin_token(settings.state())
    is_trusted = is_ours or not any(workspace.iterdir())
    return Workbench(settings, token, workspace, is_trusted=is_trusted, environment=os.environ)


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
