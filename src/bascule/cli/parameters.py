"""Formats options and arguments for help texts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, get_args

from typer.core import TyperOption

_KNOWN: Final[Mapping[str, str]] = {
    "hub": "URL",
    "url": "URL",
    "public_url": "URL",
    "timeout": "SECONDS",
    "working_dir": "DIR",
    "state_dir": "DIR",
    "root": "DIR",
    "folder": "DIR",
    "program": "FILE",
    "trace": "FILE",
}
"""What a value is, where the parameter's name does not say it."""
_RANGE: Final = re.compile(r"(; )?[\d.]*(<=?)?x[<>]=?[\d.]+")


def rows(command: Any, context: Any) -> tuple[Sequence[tuple[str, str]], Sequence[tuple[str, str]]]:
    """What a command takes, arguments and options apart: how to write each, and what it means."""
    arguments, options = [], []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None:
            continue
        about = _RANGE.sub("", record[1]).replace("  []", "")
        if _is_option(parameter):
            options.append((_written(parameter), about))
        else:
            arguments.append((argument_name(parameter), about))
    return arguments, options


def is_path(parameter: Any) -> bool:
    """Whether it names something on a disk."""
    annotation = parameter.type_descriptor.annotation
    is_named = value_name(parameter) in ("DIR", "FILE") and _is_option(parameter)
    return is_named or Path in (annotation, *get_args(annotation))


def value_name(parameter: Any) -> str:
    """What stands for a value; people write something else there."""
    kind = parameter.type_descriptor
    name: str = parameter.name
    if parameter.metavar:
        return str(parameter.metavar)
    if kind.choices:
        return "|".join(map(str, kind.choices))
    if name in _KNOWN:
        return _KNOWN[name]
    if Path in (kind.annotation, *get_args(kind.annotation)):
        return "FILE"
    if kind.annotation in (int, float):
        return "N"
    return name.rpartition("_")[2].upper()


def argument_name(argument: Any) -> str:
    """What stands for an argument; `...` after those that may be several."""
    if argument.type_descriptor.choices:
        return value_name(argument)
    name = argument.metavar or argument.name.upper()
    return f"{name}..." if argument.nargs == -1 else str(name)


def _is_option(parameter: Any) -> bool:
    # The one for --help is the parser's own and no `TyperOption`.
    return isinstance(parameter, TyperOption) or parameter.param_type_name == "option"


def _written(option: Any) -> str:
    short_first = sorted(option.opts, key=lambda name: name.startswith("--"))
    names = ", ".join(short_first)
    if option.secondary_opts:
        return f"{names} / {', '.join(option.secondary_opts)}"
    return names if option.is_flag else f"{names} {value_name(option)}"
