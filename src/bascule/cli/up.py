"""`bascule up`: a folder as a session, with a prompt here and its VS Code in the browser."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import stat
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bascule.core.errors import InvalidSetting

from .introduction import Introduction
from .known_names import one_of
from .logs import configure_logging
from .open_files import allow_many
from .starting import stages_shown
from .stopping import stops_cleanly

if TYPE_CHECKING:
    from bascule.core.contracts import Runtime

    from .up_session import Wish

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
            help="Have VS Code, in a session of a hub; by default unless commands come from a file "
            "or pipe. Without it there is a bare sandbox, with the rights of whoever starts it.",
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
            autocompletion=one_of("pty", "tmux"),
            show_default=False,
        ),
    ] = None,
    egress: Annotated[
        str | None,
        typer.Option(
            help="What the session reaches: open (by default where it can), or off.",
            autocompletion=one_of("open", "off"),
        ),
    ] = None,
    allow_unisolated: Annotated[
        bool,
        typer.Option(
            "--allow-unisolated", help="Have the session though nothing keeps it from this machine."
        ),
    ] = False,
    no_prompt: Annotated[
        bool, typer.Option("--no-prompt", help="Only serve, until SIGINT or SIGTERM.")
    ] = False,
) -> int:
    """Make a folder a session: type commands into it here, see it in VS Code in the browser.

    The one address printed shows that VS Code, what is done in it, and the way to all else that the
    hub has; no token is typed. The session runs as the folder's
    owner and sees of this machine the folder and the system's programs. It is stopped when this
    ends; the next `up` of the same folder goes on with it. A hub that runs here already is used,
    else one is started, which ends with this.

    At a terminal there is a prompt: Ctrl-C interrupts a command, Ctrl-D or `exit` leaves; that is
    no failure, whatever number is given to `exit`. Commands are also read from a file or pipe, and
    the last one's status is ours; with no input at all (/dev/null) it serves as with --no-prompt.
    A bare sandbox's key is SESSION_API_KEY, or else a random one. A browser is opened where there
    is a display or BROWSER names one.
    """
    configure_logging("warning")
    allow_many()
    workspace = _workspace(working_dir or _WORKSPACE)
    serves = no_prompt or _nobody_types()
    if editor if editor is not None else serves or sys.stdin.isatty():
        from .up_session import Wish

        wish = Wish(workspace, _one_kind(shells), *_egress(egress))
        return _session(
            wish, serves=serves, open_browser=not no_browser, allow_unisolated=allow_unisolated
        )
    return _bare_sandbox(workspace, port=port, shells=shells, serves=serves)


def _session(wish: Wish, *, serves: bool, open_browser: bool, allow_unisolated: bool) -> int:
    from bascule.runtime import CloudRuntime

    from .loop import LoopThread
    from .up_session import hub_for, session_of

    with stops_cleanly(), LoopThread() as hub_loop, contextlib.ExitStack() as stack:
        with stages_shown() as say:
            say("starting the hub")
            hub, is_ours = stack.enter_context(
                hub_for(wish.folder, hub_loop, allow_unisolated=allow_unisolated)
            )
            opened = stack.enter_context(
                session_of(wish, hub, hub_loop, is_ours=is_ours, on_stage=say)
            )
        introduction = Introduction(wish.folder)
        introduction.tell_of_up_session(opened, open_browser=open_browser)
        introduction.show()
        if serves:
            return _wait_for_signal()
        runtime = CloudRuntime(
            hub.url, hub.token, session_id=opened.session.id, default_timeout=None
        )
        return _converse(runtime)


def _bare_sandbox(workspace: Path, *, port: int, shells: str | None, serves: bool) -> int:
    from bascule.runtime import RemoteRuntime
    from bascule.sandbox.server.server import SandboxServer
    from bascule.sandbox.settings import SandboxSettings, ServerSettings
    from bascule.sandbox.shell.settings import ShellSettings

    from .loop import LoopThread
    from .shell_kinds import with_kinds

    key = os.environ.get("SESSION_API_KEY") or secrets.token_urlsafe(24)
    server_settings = ServerSettings(key=key, port=port)
    kinds = with_kinds(ShellSettings(working_dir=workspace), shells, os.environ)
    sandbox = SandboxSettings(shells=kinds)
    # It has a loop of its own: a prompt whose terminal is slow must not hold up others.
    with (
        stops_cleanly(),
        LoopThread() as loop,
        loop.hold(SandboxServer(server_settings, sandbox)) as server,
    ):
        introduction = Introduction(workspace)
        introduction.tell_of_sandbox(server.url, key)
        introduction.show()
        if serves:
            return _wait_for_signal()
        return _converse(RemoteRuntime(server.url, key, default_timeout=None))


def _converse(runtime: Runtime) -> int:
    """At a terminal people leave as they like; the last command's status is for files and pipes."""
    from .loop import LoopThread
    from .prompt import Prompt

    with LoopThread() as loop, loop.hold(runtime) as opened:
        status = Prompt(opened, loop).converse()
    return 0 if sys.stdin.isatty() else status


def _one_kind(shells: str | None) -> str | None:
    if not shells or shells in ("pty", "tmux"):
        return shells or None
    raise InvalidSetting(
        f"--shells is {shells!r}; in a session all shells are of one kind, pty or tmux "
        "(with --no-editor they may differ)"
    )


def _egress(text: str | None) -> tuple[str | None, str]:
    """What was asked for, and why a session can have no network here (empty: it can).

    A session of this machine has a network of its own, which needs a program to lead out.
    """
    from bascule.runtime.spawn.local.machine import network_lack

    lack = network_lack() if shutil.which("bwrap") else ""
    if text not in (None, "open", "off"):
        raise InvalidSetting(f"--egress is {text!r}; it can be open or off")
    if text == "open" and lack:
        raise InvalidSetting(f"--egress open cannot be had: {lack}; --egress off can")
    return text, lack


def _workspace(directory: Path) -> Path:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InvalidSetting(
            f"the workspace has to be a directory, and {directory} is, or is below, a file"
        ) from None
    except OSError as error:
        raise InvalidSetting(
            f"the workspace cannot be made: {directory}: {error.strerror}"
        ) from error
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
