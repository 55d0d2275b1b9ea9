"""`bascule up`: open a folder as a session, with a prompt and VS Code in the browser."""

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

from bascule.core.errors import InvalidSetting
from bascule.core.extras import require_extra

from .clean_exit import stops_cleanly
from .known_names import one_of
from .logs import configure_logging
from .open_files import raise_open_file_limit
from .signatures import CommandOption
from .stage_progress import show_stages
from .up_summary import UpSummary

if TYPE_CHECKING:
    from bascule.core.contracts import Runtime

    from .up_session import UpRequest

_WORKSPACE = Path("workspace")


def up(
    working_dir: Annotated[
        Path | None,
        CommandOption(
            help="Folder to use as the workspace, created if missing. [default: ./workspace]"
        ),
    ] = None,
    port: Annotated[
        int,
        CommandOption(
            min=0, max=65535, help="Port of the sandbox with --no-editor; 0 picks a free port."
        ),
    ] = 0,
    editor: Annotated[
        bool | None,
        CommandOption(
            "--editor/--no-editor",
            help="Run a session with VS Code in the browser. --no-editor: run only a sandbox, as "
            "the current user and without isolation. Default: --editor; if stdin is a file or "
            "pipe, --no-editor.",
            show_default=False,
        ),
    ] = None,
    no_browser: Annotated[
        bool, CommandOption("--no-browser", help="Print the address without opening a browser.")
    ] = False,
    shells: Annotated[
        str | None,
        CommandOption(
            envvar="BASCULE_SHELLS",
            help="Kind of all shells: pty (default), or tmux, to which `bascule attach` can "
            "attach. With --no-editor you can also set the kind of each named shell: "
            "main=tmux,build=pty.",
            autocompletion=one_of("pty", "tmux"),
            show_default=False,
        ),
    ] = None,
    egress: Annotated[
        str | None,
        CommandOption(
            help="Network access of the session: open or off. Default: open if this machine "
            "supports it, off if not.",
            autocompletion=one_of("open", "off"),
        ),
    ] = None,
    allow_unisolated: Annotated[
        bool,
        CommandOption(
            "--allow-unisolated", help="Start the session even if this machine cannot isolate it."
        ),
    ] = False,
    no_prompt: Annotated[
        bool, CommandOption("--no-prompt", help="Show no prompt; run until SIGINT or SIGTERM.")
    ] = False,
) -> int:
    """Open a folder as a session, with VS Code in the browser and a prompt in this terminal.

    Prints an address that signs a browser in and shows the session's VS Code, its timeline and the
    hub's other pages. `up` opens the address in a browser if there is a display or BROWSER is set.
    The session sees only this folder and the programs installed on this machine. Files that it
    creates belong to the owner of the folder.

    `up` starts a hub for this folder. While `up` runs, another `up` in the same folder uses the
    same session. When `up` exits, it stops the hub and all sessions of the hub. An `up` after that
    resumes the session.

    At a terminal, Ctrl-C interrupts the running command; Ctrl-D or `exit` ends `up` with exit code
    0. If stdin is a file or pipe, `up` runs the commands in it and exits with the exit code of the
    last command. If stdin is /dev/null or closed, `up` shows no prompt, as with --no-prompt. With
    --no-editor, SESSION_API_KEY sets the sandbox's key; without this variable the key is random.
    """
    configure_logging("warning")
    raise_open_file_limit()
    workspace = _workspace(working_dir or _WORKSPACE)
    serves = no_prompt or _has_no_terminal_input()
    if editor if editor is not None else serves or sys.stdin.isatty():
        require_extra("hub")
        from .up_session import UpRequest

        request = UpRequest(workspace, _one_kind(shells), *_egress(egress))
        return _session(
            request, serves=serves, open_browser=not no_browser, allow_unisolated=allow_unisolated
        )
    return _bare_sandbox(workspace, port=port, shells=shells, serves=serves)


def _session(
    request: UpRequest, *, serves: bool, open_browser: bool, allow_unisolated: bool
) -> int:
    from bascule.runtime import CloudRuntime

    from .loop import LoopThread
    from .up_session import hub_for, session_of

    with stops_cleanly(), LoopThread() as hub_loop, contextlib.ExitStack() as stack:
        with show_stages() as say:
            say("starting the hub")
            hub, is_ours = stack.enter_context(
                hub_for(request.folder, hub_loop, allow_unisolated=allow_unisolated)
            )
            opened = stack.enter_context(
                session_of(request, hub, hub_loop, is_ours=is_ours, on_stage=say)
            )
        summary = UpSummary(request.folder)
        summary.add_session(opened, open_browser=open_browser)
        summary.show()
        if serves:
            return _wait_for_signal()
        runtime = CloudRuntime(
            hub.url, hub.token, session_id=opened.session.id, default_timeout=None
        )
        return _run_prompt(runtime)


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
    # The server has its own loop: a prompt that blocks on a slow terminal must not delay it.
    with (
        stops_cleanly(),
        LoopThread() as loop,
        loop.hold(SandboxServer(server_settings, sandbox)) as server,
    ):
        summary = UpSummary(workspace)
        summary.add_sandbox(server.url, key)
        summary.show()
        if serves:
            return _wait_for_signal()
        return _run_prompt(RemoteRuntime(server.url, key, default_timeout=None))


def _run_prompt(runtime: Runtime) -> int:
    """Run a prompt. Returns 0 at a terminal, and otherwise the exit code of the last command."""
    from .loop import LoopThread
    from .prompt import Prompt

    with LoopThread() as loop, loop.hold(runtime) as opened:
        status = Prompt(opened, loop).run_until_exit()
    return 0 if sys.stdin.isatty() else status


def _one_kind(shells: str | None) -> str | None:
    if not shells or shells in ("pty", "tmux"):
        return shells or None
    raise InvalidSetting(
        f"--shells is {shells!r}; all shells of a session are of one kind, so give pty or "
        "tmux (NAME=KIND works only with --no-editor)"
    )


def _egress(text: str | None) -> tuple[str | None, str]:
    """The requested egress mode, and why a session cannot have network access; empty if it can.

    A local session has its own network namespace, and needs a program to reach the network.
    """
    from bascule.runtime.spawn.local.machine import network_problem

    problem = network_problem() if shutil.which("bwrap") else ""
    if text not in (None, "open", "off"):
        raise InvalidSetting(f"--egress is {text!r}; it must be open or off")
    if text == "open" and problem:
        raise InvalidSetting(f"--egress open is not possible here: {problem}; use --egress off")
    return text, problem


def _workspace(directory: Path) -> Path:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InvalidSetting(
            f"--working-dir {directory} is a file, or is below one; name a directory"
        ) from None
    except OSError as error:
        raise InvalidSetting(
            f"cannot create the workspace {directory}: {error.strerror}"
        ) from error
    return directory.resolve()


def _has_no_terminal_input() -> bool:
    """Whether stdin is closed, or a device that is not a terminal, such as /dev/null."""
    if sys.stdin is None:
        return True
    return not sys.stdin.isatty() and stat.S_ISCHR(os.fstat(sys.stdin.fileno()).st_mode)


def _wait_for_signal() -> int:
    stopped = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stopped.set())
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    stopped.wait()
    return 0
