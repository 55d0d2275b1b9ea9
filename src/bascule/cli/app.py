"""The commands people type. `sandbox`, which programs start, is only listed: it starts faster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperGroup
from typer.main import get_command

import bascule
from bascule.core.errors import UsageError

from .help import Commands, Listing

GROUPS: Mapping[str, Mapping[str, str]] = {
    "Start here": {
        "up": "Make a folder a session: VS Code at one address, and a prompt.",
        "demo": "Play a short scripted agent in a connected VS Code window.",
        "doctor": "Check this machine and say what is missing and how to get it.",
    },
    "Work in a place of its own": {
        "session": "Make, use and remove sessions of a hub.",
        "exec": "Run one command in a sandbox and exit with its status.",
        "shell": "Type commands into a sandbox's shell.",
        "replay": "Play what was recorded once more and say what differs.",
        "attach": "Look into a sandbox's tmux shell and type into what runs there.",
    },
    "Let agents into VS Code": {
        "pair": "Let your own VS Code into the hub.",
        "windows": "List the VS Code windows of the hub.",
        "token": "Show the admin token of the running hub, or create other tokens.",
        "mcp": "Serve a sandbox or VS Code windows to an MCP client.",
    },
    "Workflows as Petri nets": {
        "run": "Run a net to its end and exit with what became of it.",
        "net": "Check, draw, simulate or explore a net.",
    },
    "Run a hub for others": {
        "serve": "Run the hub where VS Code windows and agents meet.",
        "nginx": "Put nginx, with TLS, before the hub.",
        "backup": "Copy the state of this machine's hubs into one tar file.",
        "warden": "Do what needs root for the sessions of a hub without rights.",
        "image": "Build the image that sandboxes in containers start from.",
    },
    "And": {
        "install": "Fetch what is not part of this package: VS Code for the browser.",
        "editor": "Say where the VS Code for browsers is, or our extension.",
        "completion": "Print what makes Tab complete commands, options and names.",
        "schema": "Print the JSON Schema of every action and observation.",
        "sandbox": "Serve a sandbox's actions over HTTP, for programs.",
    },
}
"""Commands by what one wants to do. Each is a function in the module of its name, or a group of
them. Told here so that listing them imports none."""

COMMANDS: Mapping[str, str] = {
    name: line for commands in GROUPS.values() for name, line in commands.items()
}

_SETTINGS: Mapping[str, Mapping[str, bool]] = {
    # From the first word of a command on, flags are its own.
    "exec": {"allow_interspersed_args": False},
}
_PREFIX = "Value error, "
"""What the library behind the parser puts before a plain sentence."""


class _Root(Listing):
    titles = GROUPS
    variables: ClassVar[Mapping[str, str]] = {
        "BASCULE_HUB": "Address of the hub to ask, as --hub.",
        "BASCULE_TOKEN": "Token for it; without, that of the hub on this machine.",
        "SESSION_API_KEY": "Key of a sandbox, for --url.",
        "BASCULE_CONFIG": "Settings file of the hub.",
        "BASCULE_LOG": "What is logged: debug, info, warning or error.",
        "BASCULE_DEBUG": "1 shows a failure's traceback instead of one sentence.",
    }
    last_words = (
        "`bascule COMMAND --help` has options and examples. Started by editors, with a --help of",
        "its own: `bascule debug-adapter`, a debugger for nets.",
    )


def run(arguments: Sequence[str]) -> int:
    """Parse `arguments`, run the command and return its exit status."""
    named = next((word for word in arguments if not word.startswith("-")), "")
    try:
        status = tree(named).main(args=list(arguments), prog_name="bascule", standalone_mode=False)
    except typer.TyperException as error:
        raise UsageError(_told(error, _named(arguments))) from error
    return status or 0


def tree(*named: str) -> TyperGroup:
    """Every command, as the parser has them; only those named can be run, or have options."""
    app = Commands(
        name="bascule",
        help="Run an agent's actions in a sandbox or in VS Code, where people see them.",
        cls=_Root,
    )
    app.callback(invoke_without_command=True)(_root)
    for command, line in COMMANDS.items():
        function = load(command) if command in named else _only_listed
        if isinstance(function, typer.Typer):
            app.add_typer(function, name=command, short_help=line)
            continue
        settings = dict(_SETTINGS.get(command, {}))
        app.command(command, short_help=line, context_settings=settings)(function)
    root = get_command(app)
    assert isinstance(root, TyperGroup)
    return root


def load(command: str) -> Callable[..., int | None] | typer.Typer:
    """The function or group behind a command, imported now."""
    module = import_module(f".{command}", __package__)
    found: Callable[..., int | None] | typer.Typer = getattr(
        module, f"{command}_", None
    ) or getattr(module, command)
    return found


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


def _named(arguments: Sequence[str]) -> str:
    """The command as far as there is one: what the parser raises does not always know it."""
    words = [word for word in arguments if not word.startswith("-")]
    command: Any = tree(*words[:1])
    path = ["bascule"]
    for word in words:
        if not isinstance(command, TyperGroup) or word not in command.commands:
            break
        command = command.commands[word]
        path.append(word)
    return " ".join(path)


def _told(error: typer.TyperException, command: str) -> str:
    """What the parser refuses is a usage error like any other, and names where to read on."""
    message = " ".join(error.format_message().split())
    if near := getattr(error, "possibilities", None):
        message = f"{error.message}. Did you mean {' or '.join(sorted(near))}?"
    return f"{message.replace(_PREFIX, '').rstrip('.')} (try {command} --help)"
