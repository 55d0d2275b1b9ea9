"""The commands for users. `sandbox` is only listed here: it has its own parser, to start faster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, ClassVar

import click

import bascule
from bascule.core.errors import UsageError

from .help import CommandGroup, RootGroup
from .signatures import CommandOption

GROUPS: Mapping[str, Mapping[str, str]] = {
    "Start here": {
        "up": "Open a folder as a session: VS Code in the browser and a prompt here.",
        "demo": "Run a short scripted agent in a connected VS Code window.",
        "doctor": "Check this machine; prints what is missing and how to install it.",
    },
    "Sessions and sandboxes": {
        "session": "Create, use and remove the sessions of a hub.",
        "exec": "Run one command in a sandbox and exit with its exit code.",
        "shell": "Open an interactive prompt in a sandbox's shell.",
        "replay": "Run recorded actions again and report what differs.",
        "attach": "Attach this terminal to a sandbox's tmux shell.",
        "checkpoint": "List, compare and restore the checkpoints of a workspace.",
    },
    "Agents in VS Code": {
        "pair": "Connect your own VS Code to the hub.",
        "windows": "List the VS Code windows connected to the hub.",
        "token": "Print the hub's admin token; create, list and revoke other tokens.",
        "mcp": "Serve a sandbox, a session or VS Code windows to an MCP client.",
        "acp": "Run an ACP agent in a session or beside a VS Code window, for an ACP client.",
        "approvals": "List the actions of agents that wait for approval, and answer.",
        "rules": "Test and list rules that allow commands, deny them or require approval.",
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
        "editor": "Find VS Code for the browser or the Bascule extension on this machine.",
        "completion": "Print a Tab completion script for bash, zsh or fish.",
        "schema": "Print the JSON Schema of every action and observation.",
        "sandbox": "Run one sandbox as an HTTP server, without a hub.",
    },
}
"""Commands grouped by purpose. Each is a function or a group in the module of the same name. They
are described here so that listing them imports no module."""

COMMANDS: Mapping[str, str] = {
    name: line for commands in GROUPS.values() for name, line in commands.items()
}

_SETTINGS: Mapping[str, Mapping[str, bool]] = {
    # Options after the first word belong to the command that `exec` runs.
    "exec": {"allow_interspersed_args": False},
    # Those after AGENT belong to the agent.
    "acp": {"allow_interspersed_args": False},
}


class _Root(RootGroup):
    titles = GROUPS
    variables: ClassVar[Mapping[str, str]] = {
        "BASCULE_HUB": "Address of the hub, like --hub.",
        "BASCULE_TOKEN": "Token for the hub; default: the token of this machine's hub.",
        "SESSION_API_KEY": "Key of the sandbox at --url.",
        "BASCULE_CONFIG": "Settings file of the hub.",
        "BASCULE_LOG": "Log level: debug, info, warning or error.",
        "BASCULE_DEBUG": "Set to 1 to print tracebacks instead of one-line errors.",
    }
    epilog_lines = (
        "`bascule COMMAND --help` lists options and examples. Editors also start",
        "`bascule debug-adapter`, the debugger for nets, which has its own --help.",
    )


def run(arguments: Sequence[str]) -> int:
    """Parse `arguments`, run the command and return its exit code."""
    named = next((word for word in arguments if not word.startswith("-")), "")
    try:
        status = tree(named).main(args=list(arguments), prog_name="bascule", standalone_mode=False)
    except click.ClickException as error:
        raise UsageError(_parser_message(error, _named(arguments))) from error
    return status or 0


def tree(*named: str) -> click.Group:
    """The parser with all commands. Only those in `named` are imported, so only they have options
    and can be run."""
    root = _Root(
        name="bascule",
        help="Run an agent's actions in a sandbox or in VS Code, where people can watch.",
    )
    root.group_callback(_root)
    for command, line in COMMANDS.items():
        function = load(command) if command in named else _only_listed
        if isinstance(function, CommandGroup):
            function.short_help = line
            root.add_command(function, command)
            continue
        settings = _SETTINGS.get(command, {})
        root.subcommand(command, short_help=line, context_settings=settings)(function)
    return root


def load(command: str) -> Callable[..., int | None] | CommandGroup:
    """Import the function or group of a command."""
    module = import_module(f".{command}", __package__)
    found: Callable[..., int | None] | CommandGroup = getattr(
        module, f"{command}_", None
    ) or getattr(module, command)
    return found


def _root(
    context: click.Context,
    version: Annotated[bool, CommandOption("--version", help="Print the version.")] = False,
) -> None:
    if version:
        click.echo(f"bascule {bascule.__version__}")
        raise click.exceptions.Exit
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), file=sys.stderr)
        raise click.exceptions.Exit(2)


def _only_listed() -> None:
    """Placeholder for a command that was not named."""


def _named(arguments: Sequence[str]) -> str:
    """The command in `arguments`, as far as it is valid. Parser errors do not always name it."""
    words = [word for word in arguments if not word.startswith("-")]
    command: Any = tree(*words[:1])
    path = ["bascule"]
    for word in words:
        if not isinstance(command, click.Group) or word not in command.commands:
            break
        command = command.commands[word]
        path.append(word)
    return " ".join(path)


def _parser_message(error: click.ClickException, command: str) -> str:
    """The message for a parser error, with suggestions and a pointer to the help."""
    message = " ".join(error.format_message().split())
    if near := getattr(error, "possibilities", None):
        message = f"{error.message.rstrip('.')}. Did you mean {' or '.join(sorted(near))}?"
    return f"{message.rstrip('.')} (try {command} --help)"
