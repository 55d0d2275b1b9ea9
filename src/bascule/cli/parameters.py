"""Formats options and arguments for help texts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click
from click.types import FloatParamType, IntParamType

_PLACEHOLDERS: Final[Mapping[str, str]] = {
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
"""Placeholders for values, by parameter, where the name of the parameter is not clear."""
_RANGE: Final = re.compile(r"(; )?[\d.]*(<=?)?x[<>]=?[\d.]+")


def rows(command: Any, context: Any) -> tuple[Sequence[tuple[str, str]], Sequence[tuple[str, str]]]:
    """The arguments and the options of a command, each as pairs of syntax and description."""
    arguments, options = [], []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None:
            continue
        about = _RANGE.sub("", record[1]).replace("  []", "")
        if isinstance(parameter, click.Option):
            options.append((_option_syntax(parameter), about))
        else:
            arguments.append((argument_name(parameter), f"{about}{_requirement(parameter)}"))
    return arguments, options


def is_path(parameter: Any) -> bool:
    """Whether the value is a path."""
    is_option = isinstance(parameter, click.Option)
    is_named = is_option and value_name(parameter) in ("DIR", "FILE")
    return is_named or isinstance(parameter.type, click.Path)


def value_name(parameter: Any) -> str:
    """The placeholder for a value in help texts."""
    kind = parameter.type
    name: str = parameter.name
    if parameter.metavar:
        return str(parameter.metavar)
    if isinstance(kind, click.Choice):
        return "|".join(kind.choices)
    if name in _PLACEHOLDERS:
        return _PLACEHOLDERS[name]
    if isinstance(kind, click.Path):
        return "FILE"
    if isinstance(kind, IntParamType | FloatParamType):
        return "N"
    return name.rpartition("_")[2].upper()


def argument_name(argument: Any) -> str:
    """The placeholder for an argument, with `...` if it may be repeated."""
    if isinstance(argument.type, click.Choice):
        return value_name(argument)
    name = argument.metavar or argument.name.upper()
    return f"{name}..." if argument.nargs == -1 else str(name)


def _requirement(argument: Any) -> str:
    if argument.required:
        return " [required]"
    default = argument.default
    return f" [default: {default}]" if isinstance(default, str | int) else ""


def _option_syntax(option: Any) -> str:
    short_first = sorted(option.opts, key=lambda name: name.startswith("--"))
    names = ", ".join(short_first)
    if option.secondary_opts:
        return f"{names} / {', '.join(option.secondary_opts)}"
    return names if option.is_flag else f"{names} {value_name(option)}"
