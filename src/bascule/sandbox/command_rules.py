"""The rules for commands that a sandbox applies, and where they come from."""

from __future__ import annotations

import logging
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from bascule.core.errors import InvalidSetting
from bascule.rules import CommandVerdict, Parser, Rule, Rules
from bascule.rules.rule_files import WORKSPACE_FILE, RuleOwner, read_rule_file

logger = logging.getLogger(__name__)

_LISTS: Final = ("allow", "ask", "deny")
_MAX_FILE: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRules:
    """Which commands a sandbox runs, asks about and denies.

    `default` is the verdict on a command without a rule. With `allow`, every command runs unless a
    deny or ask rule certainly matches. With `ask`, cells, input to running programs and writes to
    protected files need approval too, because rules for commands never allow them.
    """

    rules: Rules = field(default_factory=Rules)
    default: CommandVerdict = CommandVerdict.ASK
    question_timeout: float = 120.0
    """Seconds for a person to answer a question."""

    def __post_init__(self) -> None:
        if self.default is CommandVerdict.DENY:
            raise InvalidSetting("the default for commands is allow or ask, not deny")

    @classmethod
    def read(cls, file: Path, *, agent: str | None = None) -> Self:
        """Read the rules of a person's own file. Raises `InvalidSetting` with the wrong line.

        Blocks the calling thread.
        """
        return cls(rules=read_rule_file(file, RuleOwner.PERSON, Parser().parse).rules(agent))

    def as_json(self) -> dict[str, Any]:
        lists = {
            name: [[list(rule.words), rule.why, rule.origin] for rule in getattr(self.rules, name)]
            for name in _LISTS
        }
        return {
            "rules": lists,
            "default": self.default.value,
            "question_timeout": self.question_timeout,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Decode the result of `as_json`. Raises `InvalidSetting`."""
        try:
            lists = (
                [Rule(tuple(map(str, words)), str(why), str(origin)) for words, why, origin in each]
                for each in (value["rules"][name] for name in _LISTS)
            )
            return cls(
                rules=Rules(*lists),
                default=CommandVerdict(value["default"]),
                question_timeout=float(value["question_timeout"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidSetting(f"These are not valid rules for commands: {error!r}") from error


class WorkspaceRules:
    """The rules of a workspace's own file, read again when the file changes. Methods block."""

    def __init__(self, workspace: Path, parser: Parser) -> None:
        self._file = workspace / WORKSPACE_FILE
        self._parser = parser
        self._seen: tuple[int, ...] = ()
        self._rules = Rules()

    def has_made(self, rule: Rule) -> bool:
        """Whether a rule comes from this file."""
        return rule.origin.rpartition(":")[0] == str(self._file)

    def rules(self) -> Rules:
        """The current rules. Raises `InvalidSetting` if the file is not valid."""
        try:
            found = self._file.stat()
        except OSError:
            self._seen, self._rules = (), Rules()
            return self._rules
        seen = (found.st_mtime_ns, found.st_size, found.st_ino, found.st_ctime_ns)
        if seen != self._seen:
            if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_FILE:
                raise InvalidSetting(f"{self._file}: is not a file of at most {_MAX_FILE:,} bytes")
            read = read_rule_file(self._file, RuleOwner.WORKSPACE, self._parser.parse)
            for warning in read.warnings:
                logger.warning("%s", warning)
            self._rules, self._seen = read.rules(), seen
        return self._rules
