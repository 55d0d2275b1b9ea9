"""Formats help: commands grouped by purpose, and examples for each command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar

import click

from .examples import example_lines
from .parameters import argument_name, rows
from .signatures import command_function

_Function = TypeVar("_Function", bound=Callable[..., Any])

_WIDTH: Final = 100
"""Maximum columns of help."""


class Command(click.Command):
    """A command whose help ends with examples."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        arguments = [each for each in self.params if each.param_type_name == "argument"]
        names = [argument_name(each) for each in arguments]
        return [
            "[OPTIONS]",
            *(
                name if each.required else f"[{name}]"
                for each, name in zip(arguments, names, strict=True)
            ),
        ]

    def format_arguments(self, ctx: Any, formatter: Any) -> None:
        _write_arguments(self, ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_options(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        _write_examples(ctx, formatter)


class CommandGroup(click.Group):
    """Lists its commands with a whole sentence each, also if no command is given.

    With `invoke_without_command` the group is also a command itself, with options and examples.
    """

    def __init__(
        self, *, help: str, name: str | None = None, invoke_without_command: bool = False
    ) -> None:
        super().__init__(
            name=name,
            help=help,
            invoke_without_command=invoke_without_command,
            no_args_is_help=False,
        )

    def group_callback(self, function: _Function) -> _Function:
        """Decorator for the function of the group itself. It also runs before each command of the
        group."""
        parsed = command_function(function)
        self.callback, self.params = parsed.call, parsed.parameters
        return function

    def subcommand(
        self,
        name: str | None = None,
        *,
        short_help: str | None = None,
        context_settings: Mapping[str, Any] | None = None,
    ) -> Callable[[_Function], _Function]:
        """Decorator for a command of the group. The default name is that of the function."""

        def add(function: _Function) -> _Function:
            parsed = command_function(function)
            command = Command(
                name or function.__name__.replace("_", "-"),
                callback=parsed.call,
                params=parsed.parameters,
                help=inspect.getdoc(function),
                short_help=short_help,
                context_settings=dict(context_settings or {}),
            )
            self.add_command(command)
            return function

        return add

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing and not self.invoke_without_command:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, each.get_short_help_str(_WIDTH)) for name, each in self.commands.items()]
            )

    def format_arguments(self, ctx: Any, formatter: Any) -> None:
        _write_arguments(self, ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        _write_examples(ctx, formatter)


class RootGroup(CommandGroup):
    """The root command: lists its commands under titles."""

    titles: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    """The commands under each title, with one line about each."""
    variables: ClassVar[Mapping[str, str]] = {}
    """Environment variables that several commands use."""
    epilog_lines: ClassVar[Sequence[str]] = ()

    def __init__(self, *, help: str, name: str) -> None:
        super().__init__(help=help, name=name, invoke_without_command=True)
        # All commands inherit these settings.
        self.context_settings["help_option_names"] = ["-h", "--help"]
        self.context_settings["max_content_width"] = _WIDTH

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        width = max(len(name) for names in self.titles.values() for name in names)
        for title, names in self.titles.items():
            rows = [(name.ljust(width), line) for name, line in names.items()]
            with formatter.section(title):
                formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Environment variables"):
            formatter.write_dl(list(self.variables.items()))
        formatter.write_paragraph()
        for line in self.epilog_lines:
            formatter.write(f"{line}\n")


def _write_arguments(command: Any, ctx: Any, formatter: Any) -> None:
    arguments, _ = rows(command, ctx)
    _write_section("Arguments", arguments, formatter)


def _write_options(command: Any, ctx: Any, formatter: Any) -> None:
    _, options = rows(command, ctx)
    _write_section("Options", options, formatter)


def _write_section(title: str, rows: Sequence[tuple[str, str]], formatter: Any) -> None:
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows)


def _write_examples(ctx: Any, formatter: Any) -> None:
    """Write the examples without wrapping, because a wrapped command cannot be pasted."""
    if lines := example_lines(" ".join(ctx.command_path.split()[1:])):
        with formatter.section("Examples"):
            for line in lines:
                formatter.write(f"  {line}\n")
