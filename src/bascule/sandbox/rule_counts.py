"""Counts what each rule for commands decided in a sandbox, since the sandbox started."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from bascule.rules import CommandVerdict, Decision, Rule, Rules
from bascule.rules.rule_files import RuleOwner
from bascule.rules.rule_text import rule_text

MAX_RULES: Final = 100
"""Maximum number of rules of one owner that are counted and reported."""
_COMMAND: Final = 300
"""Maximum characters of a command in a report. 200 rules with these limits stay below 1 MiB."""

_Key = tuple[CommandVerdict, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class RuleCount:
    """How many commands a rule decided on, and the last of them: its Unix time and its text."""

    count: int = 0
    last_time: float | None = None
    last_command: str = ""


class RuleCounts:
    """Counts for the rules of one owner.

    A rule is known by its verdict and words, so a count survives edits of the rule's file. Only the
    `MAX_RULES` rules that decided last have a count.
    """

    def __init__(self, owner: RuleOwner, *, clock: Callable[[], float] = time.time) -> None:
        self._owner = owner
        self._clock = clock
        self._counts: dict[_Key, RuleCount] = {}

    def add(self, verdict: CommandVerdict, rule: Rule, command: str) -> None:
        key = (verdict, rule.words)
        before = self._counts.pop(key, RuleCount())  # the newest is the last of the dict
        self._counts[key] = RuleCount(before.count + 1, self._clock(), command[:_COMMAND])
        if len(self._counts) > MAX_RULES:
            del self._counts[next(iter(self._counts))]

    def report(self, rules: Rules) -> list[dict[str, Any]]:
        """The rules as JSON: first those that decided, the newest first. At most `MAX_RULES`.

        Invisible characters in a rule are spelt out. The command is as it was sent, because the hub
        has to find secrets in it before it is changed.
        """
        present: dict[_Key, Rule] = {}
        for verdict in CommandVerdict:
            for rule in getattr(rules, verdict.value):
                present.setdefault((verdict, rule.words), rule)
        used = [key for key in reversed(self._counts) if key in present]
        unused = [key for key in present if key not in self._counts]
        return [self._entry(key, present[key]) for key in [*used, *unused][:MAX_RULES]]

    def _entry(self, key: _Key, rule: Rule) -> dict[str, Any]:
        return {
            "verdict": key[0].value,
            "rule": rule_text(str(rule)),
            "owner": self._owner.value,
            "why": rule_text(rule.why),
            "origin": rule_text(rule.origin),
            **asdict(self._counts.get(key, RuleCount())),
        }


def deciding_rules(decision: Decision, verdict: CommandVerdict) -> Iterator[Rule]:
    """The rules that gave parts of a text this verdict, each once. A rule that only may match, for
    a word that is unknown before the command runs, decided nothing."""
    found = {
        part.rule: None
        for part in decision.parts
        if part.rule is not None
        and part.verdict is verdict
        and (part.is_by_rule or verdict is CommandVerdict.ALLOW)
    }
    yield from found
