"""Finds the completions at the cursor from the words before it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any, Final

import click

from .parameters import is_path

_END_OF_OPTIONS: Final = "--"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible completion, and a short description of it."""

    value: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Completions:
    """The possible completions. With `is_path`, the shell completes a path itself."""

    candidates: Sequence[Candidate] = ()
    is_path: bool = False


def complete(root: click.Group, words: Sequence[str]) -> Completions:
    """The completions of the last of `words`, which may be empty. `words` excludes `bascule`.

    Only commands that `root` has loaded have options and arguments.
    """
    *before, last = words or ("",)
    command, path, rest = _command(root, before)
    if isinstance(command, click.Group):
        return _names(command, last)
    # Not `make_context`: it validates values, which imports a large library.
    context = click.Context(command, info_name=path, resilient_parsing=True)
    context.params = dict(_given_options(command, rest))
    option, needs_value = _option_at_end(command, rest)
    if needs_value:
        return _values(option, context, last)
    if _END_OF_OPTIONS not in rest and last.startswith("-"):
        name, given, value = last.partition("=")
        if not given:
            return _options(command, last)
        found = _values(_option(command, name), context, value)
        joined = [Candidate(f"{name}={each.value}", each.about) for each in found.candidates]
        return Completions(joined, found.is_path)
    return _values(_argument(command, rest), context, last)


def _command(root: click.Group, words: Sequence[str]) -> tuple[Any, str, Sequence[str]]:
    """The command that the words name, its full name, and the remaining words."""
    command: Any = root
    path = "bascule"
    remaining = list(words)
    while isinstance(command, click.Group) and remaining:
        word = remaining.pop(0)
        if word.startswith("-"):
            option = _option(command, word)
            if option is not None and not option.is_flag:
                del remaining[:1]
            continue
        if word not in command.commands:
            return click.Group(name=word), path, ()  # an unknown command has no completions
        command, path = command.commands[word], f"{path} {word}"
    return command, path, remaining


def _names(group: click.Group, last: str) -> Completions:
    if last.startswith("-"):
        return _options(group, last)
    return Completions(
        [
            Candidate(name, each.get_short_help_str(80))
            for name, each in group.commands.items()
            if name.startswith(last) and not each.hidden
        ]
    )


def _options(command: click.Command, last: str) -> Completions:
    named = [
        Candidate(name, each.help or "")
        for each in command.params
        if isinstance(each, click.Option) and not each.hidden
        for name in (*each.opts, *each.secondary_opts)
    ]
    matching = (*named, Candidate("--help", "Show this message and exit."))
    return Completions([each for each in matching if each.value.startswith(last)])


def _values(parameter: Any, context: Any, last: str) -> Completions:
    if parameter is None:
        return Completions()
    found = [
        Candidate(str(item.value), item.help or "")
        for item in parameter.shell_complete(context, last)
        if item.type == "plain"
    ]
    return Completions(found, is_path=not found and is_path(parameter))


def _option_at_end(
    command: click.Command, words: Sequence[str]
) -> tuple[click.Option | None, bool]:
    """The option whose value comes next, and whether there is one."""
    remaining: Iterator[str] = iter(_until_end_of_options(words))
    for word in remaining:
        option = _option(command, word)
        if option is not None and not option.is_flag and next(remaining, None) is None:
            return option, True
    return None, False


def _given_options(command: click.Command, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The options with their values, from environment variables and as typed."""
    for option in command.params:
        if isinstance(option, click.Option) and isinstance(option.envvar, str) and option.name:
            yield from [(option.name, value) for value in [os.environ.get(option.envvar)] if value]
    for word, after in pairwise([*words, ""]):
        name, has_value, value = word.partition("=")
        found = _option(command, name)
        if found is not None and not found.is_flag and found.name:
            yield found.name, value if has_value else after


def _argument(command: click.Command, words: Sequence[str]) -> Any:
    """The positional argument that the next word would be."""
    arguments = [each for each in command.params if not isinstance(each, click.Option)]
    remaining = iter(_until_end_of_options(words))
    given = len(words) - len(_until_end_of_options(words))
    for word in remaining:
        option = _option(command, word)
        if option is not None and not option.is_flag:
            next(remaining, None)
        elif not word.startswith("-"):
            given += 1
    if given < len(arguments):
        return arguments[given]
    return arguments[-1] if arguments and arguments[-1].nargs == -1 else None


def _option(command: click.Command, word: str) -> click.Option | None:
    for each in command.params:
        if isinstance(each, click.Option) and word in (*each.opts, *each.secondary_opts):
            return each
    return None


def _until_end_of_options(words: Sequence[str]) -> Sequence[str]:
    return list(takewhile(lambda word: word != _END_OF_OPTIONS, words))
