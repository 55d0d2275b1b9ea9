"""The rules of `.gitignore` files, as pure functions of paths."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .globs import translate

_LINES_PER_PATTERN = 64
"""Lines in one regular expression. The time of a match grows with the square of its groups, and a
match cannot be interrupted: a file with 100,000 lines would stop all threads of the process."""


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules of one `.gitignore` file. The last line that matches a path decides."""

    for_files: tuple[re.Pattern[str], ...]
    for_directories: tuple[re.Pattern[str], ...]
    kept: frozenset[str]
    """The names of the groups whose lines begin with `!`."""

    def verdict(self, path: str, *, is_directory: bool) -> bool | None:
        """Whether `path`, relative to the file's directory, is ignored; None if no line matches."""
        for pattern in self.for_directories if is_directory else self.for_files:
            if (match := pattern.fullmatch(path)) is not None:
                return match.lastgroup not in self.kept
        return None


@dataclass(frozen=True, slots=True)
class IgnoreLevel:
    """The rules of one directory, and how to make a path relative to that directory."""

    rules: IgnoreRules
    prefix: str = ""
    """Text to add before a path, if the path is relative to a directory below this directory."""
    cut: int = 0
    """Number of characters to remove from the start of a path, if the path is relative to a
    directory above this directory."""

    def verdict(self, path: str, *, is_directory: bool) -> bool | None:
        return self.rules.verdict(self.prefix + path[self.cut :], is_directory=is_directory)


def is_ignored(levels: Iterable[IgnoreLevel], path: str, *, is_directory: bool) -> bool:
    """Whether `path` is ignored. `levels` starts with the nearest directory; the first level that
    matches decides."""
    for level in levels:
        verdict = level.verdict(path, is_directory=is_directory)
        if verdict is not None:
            return verdict
    return False


def parse_rules(text: str) -> IgnoreRules | None:
    """The rules in `text`; None if it has no rules. Invalid lines are skipped, as in git."""
    for_directories: list[str] = []
    for_files: list[str] = []
    kept = set()
    for number, line in enumerate(text.splitlines()):
        parsed = _parse_line(line)
        if parsed is None:
            continue
        expression, negated, only_directories = parsed
        group = f"(?P<r{number}>{expression})"
        for_directories.append(group)
        if not only_directories:
            for_files.append(group)
        if negated:
            kept.add(f"r{number}")
    if not for_directories:
        return None
    return IgnoreRules(
        _compile_last_first(for_files), _compile_last_first(for_directories), frozenset(kept)
    )


def _parse_line(line: str) -> tuple[str, bool, bool] | None:
    pattern = _without_trailing_spaces(line)
    if not pattern or pattern.startswith("#"):
        return None
    negated = pattern.startswith("!")
    pattern = pattern.removeprefix("!")
    only_directories = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    anywhere = "/" not in pattern
    pattern = pattern.removeprefix("/")
    if "" in pattern.split("/"):
        return None  # never matches: no path contains an empty name
    try:
        return translate(f"**/{pattern}" if anywhere else pattern), negated, only_directories
    except ValueError:
        return None


def _without_trailing_spaces(line: str) -> str:
    line = line.removesuffix("\r")
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    return line


def _compile_last_first(groups: list[str]) -> tuple[re.Pattern[str], ...]:
    last_first = groups[::-1]
    return tuple(
        re.compile("|".join(last_first[at : at + _LINES_PER_PATTERN]), re.DOTALL)
        for at in range(0, len(last_first), _LINES_PER_PATTERN)
    )
