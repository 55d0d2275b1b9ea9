"""Write docs/cli.md from the commands themselves: `python scripts/cli_reference.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import cleandoc
from pathlib import Path
from typing import Any

from typer.core import TyperGroup

from bascule.cli.app import COMMANDS, GROUPS, tree
from bascule.cli.debug_adapter import _USAGE
from bascule.cli.examples import shown
from bascule.cli.parameters import argument_name, rows
from bascule.cli.sandbox import _parser

PAGE = Path(__file__).parents[1] / "docs/cli.md"
HEAD = """\
# Commands

Every command, as its `--help` tells it. `make fix` writes this page (`scripts/cli_reference.py`).
"""
VARIABLES = "SESSION_API_KEY, NO_CHANGE_TIMEOUT_SECONDS, BASCULE_SHELLS and BASCULE_LOG"


def page() -> str:
    """The whole of it."""
    root = tree(*(name for name in COMMANDS if name != "sandbox"))
    parts = [HEAD]
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n")
        for name in names:
            parts += _sandbox() if name == "sandbox" else _told(root.commands[name], name)
    parts.append("## For editors\n")
    parts.append(f"### bascule debug-adapter\n\n```\n{_USAGE}\n```\n")
    return "\n".join(parts)


def _told(command: Any, path: str) -> Iterator[str]:
    if isinstance(command, TyperGroup):
        if command.invoke_without_command:
            yield from _command(command, path)
        for name, each in command.commands.items():
            yield from _told(each, f"{path} {name}")
        return
    yield from _command(command, path)


def _command(command: Any, path: str) -> Iterator[str]:
    context = command.make_context(path, [], resilient_parsing=True)
    arguments, options = rows(command, context)
    given = [each for each in command.params if each.param_type_name == "argument"]
    names = [argument_name(each) if each.required else f"[{argument_name(each)}]" for each in given]
    yield f"### bascule {' '.join([path, *names])}\n"
    yield f"{cleandoc(command.help)}\n"
    yield from _table([row for row in (*arguments, *options) if row[0] != "--help"])
    yield "```sh\n" + "\n".join(shown(path)) + "\n```\n"


def _sandbox() -> Iterator[str]:
    parser = _parser()
    actions = [
        each for each in parser._actions if each.help and "--help" not in each.option_strings
    ]
    yield "### bascule sandbox PORT\n"
    yield f"{parser.description} Variables: {VARIABLES}; its `--help` explains them.\n"
    yield from _table(
        [(_written(each), str(each.help) % {"default": each.default}) for each in actions]
    )
    yield "```sh\n" + "\n".join(shown("sandbox")) + "\n```\n"


def _written(action: Any) -> str:
    takes = action.metavar if action.nargs != 0 and action.metavar else ""
    return " ".join(filter(None, (", ".join(action.option_strings), takes)))


def _table(found: Sequence[tuple[str, str]]) -> Iterator[str]:
    lines = [f"| `{_cell(name)}` | {_cell(about)} |" for name, about in found]
    if lines:
        yield "\n".join(["| | |", "|---|---|", *lines, ""])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


if __name__ == "__main__":
    PAGE.write_text(page())
