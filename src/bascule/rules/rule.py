"""Rules, and whether a rule matches the words of a command. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from bascule.core.errors import InvalidSetting

from .syntax import Word


@dataclass(frozen=True)
class Rule:
    """The words that a command begins with. `why` and `origin` are shown to users."""

    words: tuple[str, ...]
    why: str = ""
    origin: str = ""

    def __post_init__(self) -> None:
        if not self.words:
            # A rule without words would match every command.
            raise InvalidSetting("a rule has no words; name at least a command", setting="rule")

    def __str__(self) -> str:
        return " ".join(self.words)


@dataclass(frozen=True)
class Rules:
    """Three lists of rules. The order within a list has no meaning."""

    allow: Sequence[Rule] = ()
    ask: Sequence[Rule] = ()
    deny: Sequence[Rule] = ()

    @classmethod
    def of(
        cls,
        allow: Iterable[Sequence[str]] = (),
        ask: Iterable[Sequence[str]] = (),
        deny: Iterable[Sequence[str]] = (),
    ) -> Rules:
        """Rules from plain lists of words."""
        lists = ([Rule(tuple(words)) for words in each] for each in (allow, ask, deny))
        return cls(*lists)

    def __add__(self, other: Rules) -> Rules:
        return Rules(
            [*self.allow, *other.allow], [*self.ask, *other.ask], [*self.deny, *other.deny]
        )


class RuleMatch(Enum):
    """The result of comparing a rule with a command."""

    NO = 0
    MAYBE = 1
    """The result depends on words that are unknown before the command runs."""
    YES = 2


def matches_allow(rule: Rule, words: Sequence[Word]) -> bool:
    """Whether an allow rule matches. An unknown word never matches."""
    if len(rule.words) > len(words):
        return False
    return all(given == word.text for given, word in zip(rule.words, words, strict=False))


def match_rule(rule: Rule, words: Sequence[Word]) -> RuleMatch:
    """Whether a deny or ask rule matches. The name may be the last part of a path."""
    found = RuleMatch.YES
    for position, given in enumerate(rule.words):
        if position == len(words):
            return RuleMatch.NO
        word = words[position]
        if word.text is None:
            found = RuleMatch.MAYBE
            if word.is_many:
                return found
        elif given != word.text and not (position == 0 and given == last_part(word.text)):
            return RuleMatch.NO
    return found


def last_part(name: str) -> str:
    """The name of a program without its directory."""
    return name.rsplit("/", 1)[-1]
