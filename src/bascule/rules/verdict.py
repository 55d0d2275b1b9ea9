"""The verdict of rules on a command text, part by part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from .rule import Rule


class CommandVerdict(StrEnum):
    """The verdict on a command, from lenient to strict."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


_STRICTNESS = list(CommandVerdict)


@dataclass(frozen=True)
class Part:
    """One command, redirection or assignment of a text, and the verdict on it.

    Positions count characters of the whole command text. For a command inside text that a shell
    runs, as in `bash -c`, the positions are those of the word that contains this text.
    """

    text: str
    start: int
    end: int
    verdict: CommandVerdict
    reason: str
    rule: Rule | None = None
    words: tuple[str, ...] | None = None
    """The known first words of a command that needs approval because no rule allows it."""
    is_by_rule: bool = False
    """Whether a deny or ask rule matches this part for certain."""

    def as_json(self) -> dict[str, Any]:
        """The form of this part in `bascule rules check --batch`."""
        rule = None if self.rule is None else list(self.rule.words)
        return {
            "text": self.text,
            "start": self.start,
            "end": self.end,
            "verdict": self.verdict.value,
            "reason": self.reason,
            "rule": rule,
        }


@dataclass(frozen=True)
class Decision:
    """The verdict for a whole text: the strictest of its parts."""

    parts: Sequence[Part]
    names: frozenset[str] = frozenset()
    """The names of all commands in the text, as written. A function could have such a name."""

    @property
    def verdict(self) -> CommandVerdict:
        return strictest([part.verdict for part in self.parts])

    def with_unmatched_parts_allowed(self) -> Decision:
        """A decision that allows every part that no deny or ask rule matches for certain."""
        allowed = "everything that no rule denies or asks about is allowed here"
        parts = [
            part
            if part.is_by_rule
            else replace(
                part,
                verdict=CommandVerdict.ALLOW,
                reason=allowed,
                # Without the rule: a deny or ask rule that only may match is no reason to allow the
                # part.
                rule=part.rule if part.verdict is CommandVerdict.ALLOW else None,
                words=None,
            )
            for part in self.parts
        ]
        return replace(self, parts=parts)


def strictest(verdicts: Sequence[CommandVerdict]) -> CommandVerdict:
    """The strictest verdict; `allow` if there are no verdicts, because then nothing runs."""
    return max(verdicts, key=_STRICTNESS.index, default=CommandVerdict.ALLOW)
