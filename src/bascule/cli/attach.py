"""`bascule attach`: a person at an agent's own terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from bascule.core.errors import NoSuchShell, UsageError

from .user_dirs import runtime_dir, sandbox_dir


def attach(
    name: Annotated[str, typer.Argument(help="Name of the shell.")] = "main",
    working_dir: Annotated[
        Path | None,
        typer.Option(help="The sandbox's, if several run; by default the one that does."),
    ] = None,
    state_dir: Annotated[
        Path | None, typer.Option(help="The sandbox's, if it was started with one.")
    ] = None,
) -> int:
    """Look into a shell of a sandbox on this machine, and type into what runs there.

    It has to be a tmux shell: `bascule up --no-editor --shells tmux` makes those. What a command
    prints is shown as it comes, and what you type goes to it. At its prompt you can run commands
    of your own; the agent's wait meanwhile. Ctrl-b d leaves, and all goes on.
    """
    from bascule.sandbox.shell.tmux_host import find_tmux, session_name

    tmux = find_tmux()
    directory = state_dir or (sandbox_dir(working_dir.resolve()) if working_dir else _running(tmux))
    socket = directory / "tmux"
    known = _sessions(tmux, socket)
    if known is None:
        raise NoSuchShell(f"no sandbox with tmux shells runs in {working_dir or directory}; {_HOW}")
    wanted = session_name(name)
    if wanted not in known:
        there = ", ".join(session.replace("+", ".") for session in known) or "none yet"
        raise NoSuchShell(
            f"there is no tmux shell {name!r} in this sandbox; there are: {there}. The first "
            "command in a shell makes it, and a pty shell cannot be attached to"
        )
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "attach is for people at a terminal, and its input or output is none (a pipe, or a "
            f"file). Programs read what the shell printed: GET /shells/{name}/log of its server"
        )
    environment = {key: value for key, value in os.environ.items() if key != "TMUX"}
    os.execve(tmux, [tmux, "-S", str(socket), "attach-session", "-t", f"={wanted}"], environment)  # noqa: S606


_HOW = (
    "`bascule up --no-editor --shells tmux` or `bascule sandbox --shells tmux` starts one, and the "
    "first command in it the shell (a pty shell cannot be attached to)"
)


def _running(tmux: str) -> Path:
    """The one sandbox of this user that has tmux shells."""
    places = [place for place in sorted(runtime_dir().glob("sandbox-*")) if place.is_dir()]
    running = [place for place in places if _sessions(tmux, place / "tmux") is not None]
    if not running:
        raise NoSuchShell(f"no sandbox with tmux shells runs on this machine; {_HOW}")
    if len(running) > 1:
        names = ", ".join(_workspace(place) for place in running)
        raise UsageError(
            f"{len(running)} sandboxes with tmux shells run here: {names}. "
            "Name one with --working-dir"
        )
    return running[0]


def _sessions(tmux: str, socket: Path) -> list[str] | None:
    """Names of the shells there, ours left out; None when no tmux answers."""
    command = [tmux, "-S", str(socket), "list-sessions", "-F", "#{session_name}"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        return None
    return [name for name in asked.stdout.split() if not name.startswith("+")]


def _workspace(place: Path) -> str:
    try:
        return (place / "workspace").read_text().strip()
    except OSError:
        return str(place)
