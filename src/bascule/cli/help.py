"""Formats help: commands grouped by purpose, and examples for each command."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from .examples import shown
from .parameters import argument_name, rows

_Function = TypeVar("_Function", bound=Callable[..., Any])

_WIDTH: Final = 100
"""Columns of help, where a terminal has them."""
CONTEXT: Final[Mapping[str, object]] = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": _WIDTH,
}


class Command(TyperCommand):
    """A command whose help ends with examples."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the parser's own
        given = [each for each in self.params if each.param_type_name == "argument"]
        names = [argument_name(each) for each in given]
        return [
            "[OPTIONS]",
            *(
                name if each.required else f"[{name}]"
                for each, name in zip(given, names, strict=True)
            ),
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_parameters(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        _write_examples(ctx, formatter)


class CommandGroup(TyperGroup):
    """Lists its commands with a whole sentence each, also when none was named.

    Unless it is a command itself (`invoke_without_command`), which then has options and examples.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing and not self.invoke_without_command:
            typer.echo(ctx.get_help(), err=True)
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, each.get_short_help_str(_WIDTH)) for name, each in self.commands.items()]
            )

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_parameters(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        _write_examples(ctx, formatter)


class CommandApp(typer.Typer):
    """A Typer app with such commands and plain help.

    Plain: rich's is prettier and doubles the time to show it.
    """

    def __init__(self, *, cls: type[TyperGroup] = CommandGroup, **more: Any) -> None:
        super().__init__(
            cls=cls,
            rich_markup_mode=None,
            add_completion=False,
            context_settings=dict(CONTEXT),
            **more,
        )

    def command(self, name: str | None = None, **more: Any) -> Callable[[_Function], _Function]:
        return super().command(name, **{"cls": Command, **more})


class RootGroup(TyperGroup):
    """The root command: lists its commands under titles."""

    titles: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    """What each title has: commands, and a line on each."""
    variables: ClassVar[Mapping[str, str]] = {}
    """Of the environment, for several commands."""
    last_words: ClassVar[Sequence[str]] = ()

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
        for line in self.last_words:
            formatter.write(f"{line}\n")


def _write_parameters(command: Any, ctx: Any, formatter: Any) -> None:
    for title, found in zip(("Arguments", "Options"), rows(command, ctx), strict=True):
        if found:
            with formatter.section(title):
                formatter.write_dl(found)


def _write_examples(ctx: Any, formatter: Any) -> None:
    """As they are: a command that is wrapped cannot be pasted."""
    if lines := shown(" ".join(ctx.command_path.split()[1:])):
        with formatter.section("Examples"):
            for line in lines:
                formatter.write(f"  {line}\n")
