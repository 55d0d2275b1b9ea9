"""`bascule net`: check, draw and simulate a net without running its code."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from bascule.core.errors import StorageFailed, UsageError
from bascule.core.printable import one_line, printable

from .help import CommandGroup
from .netfile import STDIN, load_named, read_net
from .signatures import CommandArgument, CommandOption

if TYPE_CHECKING:
    from bascule.net import Net

net = CommandGroup(
    help="Check, draw, simulate or explore a Petri net without running its code.",
)

File = Annotated[Path, CommandArgument(help="A *.evolve.yaml or *.pnml file.")]
Name = Annotated[
    str,
    CommandOption(
        "--name",
        help="File name of the net on stdin. Messages use the name, and its extension selects the "
        "format.",
    ),
]
AsJson = Annotated[bool, CommandOption("--json", help="Print the result as JSON.")]

_INVALID = 2


class Form(StrEnum):
    """The output format of a drawing."""

    SVG = "svg"
    PNG = "png"
    MERMAID = "mermaid"
    JSON = "json"
    """For editors: the SVG, and the line of each place and transition."""


_ENDINGS: Mapping[str, Form] = {
    ".svg": Form.SVG,
    ".png": Form.PNG,
    ".mmd": Form.MERMAID,
    ".mermaid": Form.MERMAID,
    ".json": Form.JSON,
}


@net.subcommand()
def check(
    files: Annotated[
        list[str],
        CommandArgument(
            help="Net files to check (*.evolve.yaml, *.pnml); - reads a net from stdin."
        ),
    ],
    as_json: AsJson = False,
    name: Name = STDIN,
) -> int:
    """Check Petri nets and report errors as file:line:column.

    Exits with 2 if a file is not a valid net.
    """
    loaded = [load_named(file, name) for file in files]
    found = [diagnostic for each in loaded for diagnostic in each.diagnostics]
    if as_json:
        click.echo(json.dumps([each.as_json() for each in found]))
    else:
        for diagnostic in found:
            click.echo(printable(str(diagnostic)))
    return 0 if all(each.net is not None for each in loaded) else _INVALID


@net.subcommand()
def show(
    file: Annotated[
        Path, CommandArgument(help="A *.evolve.yaml or *.pnml file; - reads from stdin.")
    ],
    form: Annotated[
        Form | None,
        CommandOption(
            "--format", help="Output format. [default: the extension of --output; svg on stdout]"
        ),
    ] = None,
    output: Annotated[
        Path | None, CommandOption("--output", "-o", help="File to write. [default: stdout]")
    ] = None,
    name: Name = STDIN,
) -> int:
    """Draw a net as SVG, PNG or a Mermaid flowchart, or as JSON for editors."""
    from bascule.net import to_mermaid, to_svg

    found = read_net(file, name)
    if found is None:
        return _INVALID
    match form or _form_of(output):
        case Form.PNG:
            from .picture import to_png

            drawn = to_png(to_svg(found))
        case Form.MERMAID:
            drawn = to_mermaid(found).encode()
        case Form.JSON:
            drawn = json.dumps(_view(found), ensure_ascii=False).encode()
        case Form.SVG:
            drawn = to_svg(found).encode()
    if output is None:
        sys.stdout.buffer.write(drawn)
    else:
        try:
            output.write_bytes(drawn)
        except OSError as error:
            raise StorageFailed(f"cannot write {output}: {error.strerror}") from error
    return 0


@net.subcommand()
def simulate(
    file: File,
    steps: Annotated[int, CommandOption(min=0, help="Maximum number of firings.")] = 100,
    seed: Annotated[
        int | None,
        CommandOption(
            help="Choose transitions at random with this seed. [default: the first enabled one]"
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Simulate a net without running its code, and print the resulting marking."""
    from bascule.net import simulate as play

    found = read_net(file)
    if found is None:
        return _INVALID
    game = play(found, steps=steps, seed=seed)
    if as_json:
        click.echo(json.dumps(game.as_json()))
        return 0
    end = "nothing more can fire" if game.is_at_rest else "more can fire"
    click.echo(f"{game.steps} firings, {end}{_without_code(found.has_code)}")
    for name, count in (*game.firings.items(), *game.marking.items()):
        click.echo(f"  {one_line(name)}: {count}")
    return 0


@net.subcommand()
def explore(
    file: File,
    max_states: Annotated[
        int, CommandOption(min=1, help="Stop after this many states.")
    ] = 1_000_000,
    as_json: AsJson = False,
) -> int:
    """Find all states a net can reach, and its deadlocks, without running its code."""
    from bascule.net import explore as walk

    found = read_net(file)
    if found is None:
        return _INVALID
    progress = _show_progress if sys.stderr.isatty() else None
    space = walk(found, max_states=max_states, on_progress=progress)
    if progress is not None:
        click.echo("\r\x1b[K", nl=False, err=True)
    if as_json:
        click.echo(json.dumps(space.as_json()))
        return 0
    all_ = "all" if space.complete else "the first"
    click.echo(f"{all_} {space.states} states, {space.edges} edges{_without_code(found.has_code)}")
    click.echo(
        f"end states: {space.ends}; deadlocks: {space.deadlocks}; "
        f"most tokens in a place: {space.bound}"
    )
    if space.path_to_deadlock is not None:
        path = one_line(" ".join(space.path_to_deadlock)) or "the initial state is one"
        click.echo(f"path to a deadlock: {path}")
    if space.complete and space.dead_transitions:
        dead = one_line(" ".join(space.dead_transitions))
        click.echo(f"transitions that never fire: {dead}")
    return 0


@net.subcommand()
def schema() -> None:
    """Print the JSON Schema of net files (*.evolve.yaml), for editors."""
    from bascule.net.schema import schema_text

    click.echo(schema_text(), nl=False)


def _view(found: Net) -> dict[str, Any]:
    from bascule.net import to_svg

    return {
        "svg": to_svg(found),
        "places": {place.id: place.span.line for place in found.places.values()},
        "transitions": {each.id: each.span.line for each in found.transitions.values()},
    }


def _form_of(output: Path | None) -> Form:
    if output is None:
        return Form.SVG
    try:
        return _ENDINGS[output.suffix.lower()]
    except KeyError:
        raise UsageError(
            f"{output} has no extension of a known format: use {', '.join(_ENDINGS)}, or give "
            "--format"
        ) from None


def _without_code(has_code: bool) -> str:
    return " (code was not run)" if has_code else ""


def _show_progress(states: int) -> None:
    """Overwrite the line with the current count."""
    click.echo(f"\r{states:,} states…", nl=False, err=True)
