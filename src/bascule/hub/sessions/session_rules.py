"""The hub's rules for commands in sessions: one TOML file.

When a person answers a question with `always`, rules are added to the file.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bascule.core.errors import StorageFailed
from bascule.hub.settings import HubSettings

if TYPE_CHECKING:
    from bascule.rules.rule_files import RuleFile

FILE: Final = "rules.toml"
"""Name of the rule file in the hub's state directory."""


@dataclass(frozen=True, slots=True)
class HubRule:
    """One rule of the hub, for people."""

    verdict: str
    rule: str
    agent: str
    """The agent that the rule is for; empty: all."""
    why: str
    """The reason, or who allowed it and when."""
    origin: str


class SessionRules:
    """Reads and extends the file. Without a file and without `rules_default` there are no rules."""

    def __init__(self, settings: HubSettings) -> None:
        state = settings.state_dir
        self._file = settings.rules or (None if state is None else state / FILE)
        self._default = settings.rules_default
        self._timeout = settings.question_timeout
        self._lock = asyncio.Lock()

    async def rules_for(self, agent: str) -> Mapping[str, Any] | None:
        """The rules for the sessions of an agent, as their sandboxes receive them.

        Raises `InvalidSetting` with file and line if the file is not valid.
        """
        async with self._lock:
            return await asyncio.to_thread(self._rules_for, agent)

    async def add(self, agent: str, rules: Sequence[Sequence[str]], *, why: str) -> None:
        """Add allow rules for an agent. Raises `StorageFailed` if the file cannot be written."""
        async with self._lock:
            await asyncio.to_thread(self._add, agent, rules, why)

    async def all_rules(self) -> Sequence[HubRule]:
        """All rules in the order of the file."""
        async with self._lock:
            file = await asyncio.to_thread(self._read)
        return [
            HubRule(table.kind.value, str(rule), table.agent or "", rule.why, rule.origin)
            for table in (file.tables if file is not None else ())
            for rule in table.rules
        ]

    def _read(self) -> RuleFile | None:
        if self._file is None or not self._file.exists():
            return None
        return _read_valid(self._file)

    def _rules_for(self, agent: str) -> Mapping[str, Any] | None:
        file = self._read()
        if file is None and not self._default:
            return None
        from bascule.rules import Rules
        from bascule.sandbox.command_rules import CommandRules

        rules = Rules() if file is None else file.rules(agent)
        applied = CommandRules(rules=rules, question_timeout=self._timeout)
        return {**applied.as_json(), "default": self._default or None}

    def _add(self, agent: str, rules: Sequence[Sequence[str]], why: str) -> None:
        if self._file is None:
            raise StorageFailed("This hub has no state directory, so it cannot store rules")
        run = ", ".join(_quoted(shlex.join(words)) for words in rules)
        table = f"[[allow]]\nrun = [{run}]\nagent = {_quoted(agent)}\nwhy = {_quoted(why)}\n"
        file = self._file.resolve()
        try:
            old_text = file.read_text(encoding="utf-8").rstrip("\n") if file.exists() else ""
            _replace(file, f"{old_text}\n\n{table}".lstrip("\n"))
        except OSError as error:
            raise StorageFailed(f"{file}: cannot be written: {error.strerror}") from error


def _replace(file: Path, text: str) -> None:
    """Replace a file atomically, after checking that the new contents are valid."""
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    new = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as written:
            written.write(text)
        _read_valid(new)
        new.replace(file)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _read_valid(file: Path) -> RuleFile:
    # Imported here, because the rules take memory that a hub without a file does not need.
    from bascule.rules import Parser
    from bascule.rules.rule_files import RuleOwner, read_rule_file

    return read_rule_file(file, RuleOwner.PERSON, Parser().parse)


def _quoted(text: str) -> str:
    """`text` as a TOML string."""
    return json.dumps(text).replace("\x7f", "\\u007f")
