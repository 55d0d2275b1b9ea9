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

from .help import CommandApp, RootGroup

GROUPS: Mapping[str, Mapping[str, str]] = {
    "Start here": {
        "up": "Open a folder as a session: VS Code in the browser and a prompt here.",
        "demo": "Run a short scripted agent in a connected VS Code window.",
        "doctor": "Check this machine: what is missing and how to install it.",
    },
    "Sessions and sandboxes": {
        "session": "Create, use and remove the sessions of a hub.",
        "exec": "Run one command in a sandbox and exit with its exit code.",
        "shell": "Open an interactive prompt in a sandbox's shell.",
        "replay": "Run recorded actions again and report what differs.",
        "attach": "Attach this terminal to a sandbox's tmux shell.",
    },
    "Agents in VS Code": {
        "pair": "Connect your own VS Code to the hub.",
        "windows": "List the VS Code windows connected to the hub.",
        "token": "Print the hub's admin token; create, list and revoke other tokens.",
        "mcp": "Serve a sandbox, a session or VS Code windows to an MCP client.",
    },
    "Workflows as Petri nets": {
        "run": "Run a net; the exit code says how it ended.",
        "net": "Check, draw, simulate or explore a net.",
    },
    "Run a hub for others": {
        "serve": "Run the hub: the server for sessions, VS Code windows and agents.",
        "nginx": "Configure nginx with TLS as the hub's reverse proxy.",
        "backup": "Back up this machine's hubs to one tar file.",
        "warden": "Run the root helper that starts sessions for a hub without root.",
        "image": "Build the container image for sessions of the docker spawner.",
    },
    "More": {
        "install": "Download VS Code for the browser (code-server).",
        "editor": "Print where VS Code for the browser or the extension is installed.",
        "completion": "Print a Tab completion script for bash, zsh or fish.",
        "schema": "Print the JSON Schema of every action and observation.",
        "sandbox": "Run one sandbox as an HTTP server, without a hub.",
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


class _Root(RootGroup):
    titles = GROUPS
    variables: ClassVar[Mapping[str, str]] = {
        "BASCULE_HUB": "Address of the hub, like --hub.",
        "BASCULE_TOKEN": "Token for that hub; default: the token of this machine's hub.",
        "SESSION_API_KEY": "Key of the sandbox at --url.",
        "BASCULE_CONFIG": "Settings file of the hub.",
        "BASCULE_LOG": "Log level: debug, info, warning or error.",
        "BASCULE_DEBUG": "Set to 1 to print tracebacks instead of one-line errors.",
    }
    last_words = (
        "`bascule COMMAND --help` lists options and examples. Editors also start",
        "`bascule debug-adapter`, the debugger for nets, which has its own --help.",
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
    app = CommandApp(
        name="bascule",
        help="Run an agent's actions in a sandbox or in VS Code, where people can watch.",
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
