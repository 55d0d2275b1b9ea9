"""The commands people type. `sandbox`, which programs start, is only listed: it starts faster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Annotated

import typer

import bascule
from bascule.core.errors import UsageError

COMMANDS: Mapping[str, str] = {
    "up": "Make a folder a session: VS Code at one address, and a prompt.",
    "demo": "Play a short scripted agent in a connected VS Code window.",
    "pair": "Let your own VS Code into the hub.",
    "windows": "List the VS Code windows of the hub.",
    "run": "Run a net to its end and exit with what became of it.",
    "net": "Check, draw, simulate or explore a net.",
    "exec": "Run one command in a sandbox and exit with its status.",
    "shell": "Type commands into a sandbox's shell.",
    "attach": "Look into a sandbox's tmux shell and type into what runs there.",
    "session": "Make, use and remove sessions of a hub.",
    "replay": "Play what was recorded once more and say what differs.",
    "serve": "Run the hub where VS Code windows and agents meet.",
    "warden": "Do what needs root for the sessions of a hub without rights.",
    "mcp": "Serve a sandbox or VS Code windows to an MCP client.",
    "nginx": "Put nginx, with TLS, before the hub.",
    "sandbox": "Serve a sandbox's actions over HTTP, for programs.",
    "token": "Show the hub's first token, or make others.",
    "install": "Fetch what is not part of this package: VS Code for the browser.",
    "editor": "Say where the VS Code is that `up` opens in a browser.",
    "image": "Build the image that sandboxes in containers start from.",
    "schema": "Print the JSON Schema of every action and observation.",
    "doctor": "Check this machine and say what is missing and how to get it.",
}
"""Each is a function in the module of its name, or a group of them. Told here so that listing them
imports none."""

_EPILOG = (
    "Started by editors: `bascule debug-adapter`, a debugger for nets, with a --help of its own."
)
_SETTINGS: Mapping[str, Mapping[str, bool]] = {
    # From the first word of a command on, flags are its own.
    "exec": {"allow_interspersed_args": False},
}
_PREFIX = "Value error, "
"""What the library behind the parser puts before a plain sentence."""


def run(arguments: Sequence[str]) -> int:
    """Parse `arguments`, run the command and return its exit status."""
    named = next((word for word in arguments if not word.startswith("-")), "")
    try:
        status = _build(named)(args=list(arguments), prog_name="bascule", standalone_mode=False)
    except typer.TyperException as error:
        # What the parser refuses is a usage error like any other.
        message = error.format_message().replace(_PREFIX, "").rstrip(".")
        raise UsageError(f"{message} (try --help)") from error
    return status or 0


def load(command: str) -> Callable[..., int | None] | typer.Typer:
    """The function or group behind a command, imported now."""
    module = import_module(f".{command}", __package__)
    found: Callable[..., int | None] | typer.Typer = getattr(
        module, f"{command}_", None
    ) or getattr(module, command)
    return found


def _build(named: str) -> typer.Typer:
    # Plain help: rich's is prettier and doubles the time to show it.
    app = typer.Typer(
        name="bascule",
        help="Run an agent's actions in a sandbox or in VS Code, where people can see them.",
        epilog=_EPILOG,
        rich_markup_mode=None,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_root)
    for command, line in COMMANDS.items():
        function = load(command) if command == named else _only_listed
        if isinstance(function, typer.Typer):
            app.add_typer(function, name=command, short_help=line)
            continue
        settings = dict(_SETTINGS.get(command, {}))
        app.command(command, short_help=line, context_settings=settings)(function)
    return app


def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(f"bascule {bascule.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), file=sys.stderr)
        raise typer.Exit(2)


def _only_listed() -> None:
    """Stands for a command that was not named."""
