"""Reads rules from TOML files and checks the examples in them.

    [[allow]]
    run = ["git log", "git diff"]
    yes = ["git log -1"]             # must be allowed by these rules alone
    no = ["git log --output=x"]      # must not be allowed

    [[deny]]
    run = ["git push"]
    why = "Push yourself"
    agent = "reviewer"               # for this agent only

`[[ask]]` has the same keys.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from bascule.core.errors import InvalidSetting, StorageFailed

from .command_context import CommandContext
from .judge import Parse, judge
from .rule import Rule, Rules
from .verdict import CommandVerdict, Decision

WORKSPACE_FILE = ".vscode/bascule-rules.toml"
"""The rule file of a workspace. Commands may not write to `.vscode` without approval."""

_KEYS = ("run", "yes", "no", "why", "agent")
_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*(allow|ask|deny)[ \t]*\]\]", re.MULTILINE)
_PASTED = re.compile(r"Bash\((?P<words>.*?)(?P<rest>:\*| \*)?\)", re.DOTALL)
_EXAMPLE_CONTEXT = CommandContext("/workspace", "/workspace", "/home/person")


class RuleOwner(Enum):
    """The author of a rule file."""

    PERSON = "person"
    """The user of the agent, or the hub."""
    WORKSPACE = "workspace"
    """Anyone who can write to the workspace, including the agent. May not allow anything."""


@dataclass(frozen=True)
class RuleTable:
    """One `[[allow]]`, `[[ask]]` or `[[deny]]` table of a file."""

    kind: CommandVerdict
    rules: Sequence[Rule]
    agent: str | None
    yes: Sequence[str]
    no: Sequence[str]
    line: int

    def as_rules(self) -> Rules:
        """The rules of this table alone."""
        return Rules(**{self.kind.value: self.rules})


@dataclass(frozen=True)
class RuleFile:
    """The rules of one file, whose examples were checked."""

    path: Path
    tables: Sequence[RuleTable] = field(default=())
    warnings: Sequence[str] = ()
    """The ignored tables, with file and line: a workspace may not have allow rules."""

    def rules(self, agent: str | None = None) -> Rules:
        """The rules for all agents, and those for `agent`."""
        found = Rules()
        for table in self.tables:
            if table.agent is None or table.agent == agent:
                found = found + table.as_rules()
        return found


def read_rule_file(path: Path, owner: RuleOwner, parse: Parse) -> RuleFile:
    """Read a file and check its examples. Raises `InvalidSetting` with the file and the line.

    Allow rules of a workspace are ignored, with a warning.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise StorageFailed(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidSetting(f"{path}: is not UTF-8 text") from error
    tables = _RuleFileReader(path, text).tables()
    failures = [each for table in tables for each in _failed_examples(table, path, text, parse)]
    if failures:
        raise InvalidSetting("\n".join(failures))
    ignored = [each for each in tables if _is_ignored(each, owner)]
    return RuleFile(
        path,
        [each for each in tables if each not in ignored],
        [
            f"{path}:{each.line}: ignored, because a workspace can only add [[ask]] and [[deny]]; "
            "[[allow]] belongs into your own file of rules, which an agent cannot write"
            for each in ignored
        ],
    )


def _is_ignored(table: RuleTable, owner: RuleOwner) -> bool:
    return owner is RuleOwner.WORKSPACE and table.kind is CommandVerdict.ALLOW


class _RuleFileReader:
    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._string = text

    def tables(self) -> Sequence[RuleTable]:
        try:
            content = tomllib.loads(self._string)
        except tomllib.TOMLDecodeError as error:
            raise InvalidSetting(f"{self._path}: {error}") from error
        kinds = [kind.value for kind in CommandVerdict]
        for name in content:
            if name not in kinds:
                raise InvalidSetting(
                    f"{self._path}: there is no `{name}`; a file of rules has "
                    "[[allow]], [[ask]] and [[deny]]"
                )
        return [
            table for kind in kinds for table in self._tables_of_kind(kind, content.get(kind, []))
        ]

    def _tables_of_kind(self, kind: str, tables: Any) -> Iterator[RuleTable]:
        if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
            raise InvalidSetting(f"{self._path}: write [[{kind}]] with two brackets")
        headers = [m.start() for m in _HEADER.finditer(self._string) if m[1] == kind]
        for index, each in enumerate(tables):
            start = headers[index] if len(headers) == len(tables) else 0
            yield self._table(CommandVerdict(kind), each, self._string.count("\n", 0, start) + 1)

    def _table(self, kind: CommandVerdict, table: Mapping[str, Any], line: int) -> RuleTable:
        position = f"{self._path}:{line}"
        for key in table:
            if key not in _KEYS:
                raise InvalidSetting(f"{position}: there is no `{key}`; use {', '.join(_KEYS)}")
        why, agent = (_string(table, key, position) for key in ("why", "agent"))
        run = _string_list(table, "run", position)
        if not run:
            raise InvalidSetting(f'{position}: `run` is missing; write run = ["git log"]')
        rules = [Rule(_rule_words(each, position), why or "", position) for each in run]
        yes, no = (_string_list(table, key, position) for key in ("yes", "no"))
        return RuleTable(kind, rules, agent, yes, no, line)


def _string(table: Mapping[str, Any], key: str, position: str) -> str | None:
    value = table.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidSetting(f"{position}: `{key}` is {value!r}, but must be a string")
    return value


def _string_list(table: Mapping[str, Any], key: str, position: str) -> Sequence[str]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InvalidSetting(f"{position}: `{key}` is {value!r}, but must be a list of strings")
    return value


def _rule_words(text: str, position: str) -> tuple[str, ...]:
    """The words of a rule in a file: `git log`, or in the form of other tools `Bash(git log:*)`."""
    pasted = _PASTED.fullmatch(text.strip())
    if pasted is not None and (not pasted["rest"] or "*" in pasted["words"]):
        raise InvalidSetting(
            f"{position}: the rule {text!r} has another meaning here: a rule is the beginning of a "
            "command, without wildcards; write for example `git log` or `Bash(git log:*)`"
        )
    try:
        words = tuple(shlex.split(pasted["words"] if pasted else text))
    except ValueError as error:
        raise InvalidSetting(f"{position}: the rule {text!r} has an open quote") from error
    if not words:
        raise InvalidSetting(f"{position}: the rule {text!r} has no words; name a command")
    return words


def _failed_examples(table: RuleTable, path: Path, text: str, parse: Parse) -> Iterator[str]:
    """One message for each example whose result is not as stated."""
    for examples, wanted in ((table.yes, True), (table.no, False)):
        for example in examples:
            decision = judge(example, table.as_rules(), _EXAMPLE_CONTEXT, parse)
            if _applies(table, decision) is not wanted:
                line = _line_of(example, text, table.line)
                yield f"{path}:{line}: {_failure_message(table.kind, example, decision, wanted)}"


def _applies(table: RuleTable, decision: Decision) -> bool:
    if table.kind is CommandVerdict.ASK:
        return any(part.rule in table.rules for part in decision.parts)
    return decision.verdict is table.kind


def _failure_message(kind: CommandVerdict, example: str, decision: Decision, wanted: bool) -> str:
    verb = {"allow": "allow", "ask": "ask about", "deny": "deny"}[kind.value]
    if not wanted:
        return f"these rules {verb} `{example}`, which is listed under `no`"
    reasons = [part.reason for part in decision.parts if part.verdict is decision.verdict]
    because = f": {reasons[0]}" if reasons and kind is CommandVerdict.ALLOW else ""
    return f"these rules do not {verb} `{example}`, which is listed under `yes`{because}"


def _line_of(example: str, text: str, first: int) -> int:
    """The line number of an example, or of its table if the example is written with escapes."""
    for number, line in enumerate(text.splitlines()[first - 1 :], start=first):
        if example in line:
            return number
    return first
