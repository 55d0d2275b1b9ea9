"""The rules of `.gitignore` files, as pure functions of paths."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .globs import translate

_NEVER = re.compile(r"(?!)")


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules of one `.gitignore` file. The last line that matches a path decides."""

    for_files: re.Pattern[str]
    for_directories: re.Pattern[str]
    kept: frozenset[str]
    """The names of the groups whose lines begin with `!`."""

    def verdict(self, path: str, *, is_directory: bool) -> bool | None:
        """Whether `path`, relative to the file's directory, is ignored; None: nothing said."""
        pattern = self.for_directories if is_directory else self.for_files
        found = pattern.fullmatch(path)
        return None if found is None else found.lastgroup not in self.kept


@dataclass(frozen=True, slots=True)
class IgnoreLevel:
    """Rules, and how a path relative to the search's start reads from where they are written."""

    rules: IgnoreRules
    prefix: str = ""
    cut: int = 0

    def verdict(self, path: str, *, is_directory: bool) -> bool | None:
        return self.rules.verdict(self.prefix + path[self.cut :], is_directory=is_directory)


def is_ignored(levels: Iterable[IgnoreLevel], path: str, *, is_directory: bool) -> bool:
    """The nearest level that has something to say decides; `levels` has the nearest first."""
    for level in levels:
        verdict = level.verdict(path, is_directory=is_directory)
        if verdict is not None:
            return verdict
    return False


def parse_rules(text: str) -> IgnoreRules | None:
    """None when there is not one rule. A line that makes no sense is passed over, as by git."""
    every: list[str] = []
    for_files: list[str] = []
    kept = set()
    for number, line in enumerate(text.splitlines()):
        parsed = _parse_line(line)
        if parsed is None:
            continue
        expression, negated, only_directories = parsed
        group = f"(?P<r{number}>{expression})"
        every.append(group)
        if not only_directories:
            for_files.append(group)
        if negated:
            kept.add(f"r{number}")
    if not every:
        return None
    return IgnoreRules(_last_first(for_files), _last_first(every), frozenset(kept))


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
        return None  # no path has an empty name in it
    try:
        return translate(f"**/{pattern}" if anywhere else pattern), negated, only_directories
    except ValueError:
        return None


def _without_trailing_spaces(line: str) -> str:
    line = line.removesuffix("\r")
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    return line


def _last_first(groups: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(reversed(groups)), re.DOTALL) if groups else _NEVER
