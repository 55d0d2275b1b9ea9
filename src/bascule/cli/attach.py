"""`bascule attach`: attach this terminal to an agent's shell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

from bascule.core.errors import NoSuchShell, UsageError

from .signatures import CommandArgument, CommandOption
from .user_dirs import runtime_dir, sandbox_dir


def attach(
    name: Annotated[str, CommandArgument(help="Name of the shell.")] = "main",
    working_dir: Annotated[
        Path | None,
        CommandOption(
            help="Working directory of the sandbox. Needed only if several sandboxes run."
        ),
    ] = None,
    state_dir: Annotated[
        Path | None,
        CommandOption(help="State directory of the sandbox, if it was started with --state-dir."),
    ] = None,
) -> int:
    """Attach this terminal to a tmux shell of a sandbox on this machine.

    Start the sandbox with `bascule up --no-editor --shells tmux`. You see the output of the running
    command and can type input for it. At the shell's prompt you can run your own commands. While
    your command runs, a command of the agent waits or is refused. Ctrl-b d detaches and leaves
    everything running.
    """
    from bascule.sandbox.shell.tmux_host import find_tmux, session_name

    tmux = find_tmux()
    directory = state_dir or (sandbox_dir(working_dir.resolve()) if working_dir else _running(tmux))
    socket = directory / "tmux"
    known = _sessions(tmux, socket)
    if known is None:
        raise NoSuchShell(
            f"no sandbox with tmux shells is running in {working_dir or directory}; {_START_ADVICE}"
        )
    wanted = session_name(name)
    if wanted not in known:
        available = ", ".join(session.replace("+", ".") for session in known) or "none yet"
        raise NoSuchShell(
            f"this sandbox has no tmux shell {name!r}; its tmux shells: {available}. A shell "
            "starts with its first command; pty shells cannot be attached to"
        )
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "attach needs a terminal, but stdin or stdout is a pipe or file. Programs "
            f"can read the shell's output with GET /shells/{name}/log on the sandbox's server"
        )
    environment = {key: value for key, value in os.environ.items() if key != "TMUX"}
    os.execve(tmux, [tmux, "-S", str(socket), "attach-session", "-t", f"={wanted}"], environment)  # noqa: S606


_START_ADVICE = (
    "start one with `bascule up --no-editor --shells tmux` or `bascule sandbox --shells "
    "tmux`; a shell starts with its first command (pty shells cannot be attached to)"
)


def _running(tmux: str) -> Path:
    """The directory of the only running sandbox with tmux shells. Raises an error if there is not
    exactly one."""
    places = [place for place in sorted(runtime_dir().glob("sandbox-*")) if place.is_dir()]
    running = [place for place in places if _sessions(tmux, place / "tmux") is not None]
    if not running:
        raise NoSuchShell(
            f"no sandbox with tmux shells is running on this machine; {_START_ADVICE}"
        )
    if len(running) > 1:
        names = ", ".join(_workspace(place) for place in running)
        raise UsageError(
            f"{len(running)} sandboxes with tmux shells are running: {names}. Choose one "
            "with --working-dir"
        )
    return running[0]


def _sessions(tmux: str, socket: Path) -> list[str] | None:
    """The names of the shells, without Bascule's internal sessions; None if no tmux answers."""
    command = [tmux, "-S", str(socket), "list-sessions", "-F", "#{session_name}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        return None
    return [name for name in result.stdout.split() if not name.startswith("+")]


def _workspace(place: Path) -> str:
    try:
        return (place / "workspace").read_text().strip()
    except OSError:
        return str(place)
