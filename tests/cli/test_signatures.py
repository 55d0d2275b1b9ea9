"""How parameters of a function become arguments and options of a command."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import click
import pytest
from click.testing import CliRunner

from bascule.cli.signatures import CommandArgument, CommandOption, command_function


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


seen: dict[str, Any] = {}


def paint(
    walls: Annotated[list[Path] | None, CommandArgument(help="Walls to paint.")] = None,
    colour: Annotated[Colour, CommandOption(help="Colour of the paint.")] = Colour.RED,
    coats: Annotated[int, CommandOption(min=1, help="Number of coats.")] = 2,
    primer: Annotated[bool | None, CommandOption(help="Whether to use a primer.")] = None,
    quickly: Annotated[bool, CommandOption("--quickly", help="Do not wait for it to dry.")] = False,
    helper: Annotated[list[str] | None, CommandOption(help="Name of a helper. Repeatable.")] = None,
    note: Annotated[str | None, CommandOption(help="Text for the invoice.")] = None,
) -> None:
    seen.clear()
    seen.update(locals())


DEFAULTS = {
    "walls": None,
    "colour": Colour.RED,
    "coats": 2,
    "primer": None,
    "quickly": False,
    "helper": None,
    "note": None,
}


def run(*arguments: str) -> int:
    made = command_function(paint)
    command = click.Command("paint", callback=made.call, params=made.parameters)
    return CliRunner().invoke(command, arguments).exit_code


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        ((), {}),
        (("--primer",), {"primer": True}),
        (("--no-primer",), {"primer": False}),
        (("--quickly",), {"quickly": True}),
        (("--colour", "blue"), {"colour": Colour.BLUE}),
        (("--coats", "1"), {"coats": 1}),
        (("--helper", "Ann", "--helper", "Bob"), {"helper": ["Ann", "Bob"]}),
        (("--note", ""), {"note": ""}),
        (("north", "south"), {"walls": [Path("north"), Path("south")]}),
    ],
)
def test_a_function_gets_given_values_and_its_own_defaults(
    arguments: tuple[str, ...], changed: dict[str, Any]
) -> None:
    assert run(*arguments) == 0
    assert seen == {**DEFAULTS, **changed}


@pytest.mark.parametrize(
    "arguments", [("--coats", "0"), ("--coats", "many"), ("--colour", "green"), ("--unknown",)]
)
def test_a_value_of_the_wrong_type_is_rejected(arguments: tuple[str, ...]) -> None:
    assert run(*arguments) == 2
