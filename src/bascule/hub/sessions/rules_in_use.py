"""The rules that apply in one session, their origin and their use. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from bascule.core.visible_text import visible
from bascule.rules.rule_text import rule_text

from .masking import Mask
from .sandbox_messages import RuleUse
from .session_rules import HubRule

_MAX_COMMAND: Final = 300
"""Maximum characters of a command that is shown."""


@dataclass(frozen=True, slots=True)
class RuleInUse:
    """A rule for commands in a session."""

    verdict: str
    rule: str
    agent: str
    """The agent that the rule is for; empty: all."""
    why: str
    origin: str
    made_by: Literal["hub", "workspace"]
    count: int | None
    """Number of commands that the rule decided on since the sandbox started. None: the session does
    not run."""
    last_time: float | None = None
    last_command: str = ""


def rules_in_use(
    rules: Sequence[HubRule], uses: Sequence[RuleUse] | None, *, agent: str, mask: Mask
) -> Sequence[RuleInUse]:
    """The hub's rules for the session of an agent, then those of its workspace.

    `uses`: the uses that the sandbox reports; None if it does not run. Another program of the
    session may have sent them, so they never add a rule of the hub or an allow rule.
    """
    reported: Mapping[tuple[str, str], RuleUse] = {
        (use.verdict, use.rule): use for use in uses or () if use.owner == "person"
    }
    no_uses = None if uses is None else 0
    of_hub = [rule for rule in rules if rule.agent in ("", agent)]
    return [
        *(
            _of_hub(rule, reported.get((rule.verdict, rule_text(rule.rule))), no_uses, mask)
            for rule in of_hub
        ),
        *_of_workspace(uses or (), mask),
    ]


def _of_hub(rule: HubRule, use: RuleUse | None, no_uses: int | None, mask: Mask) -> RuleInUse:
    return RuleInUse(
        rule.verdict,
        rule.rule,
        rule.agent,
        rule.why,
        rule.origin,
        "hub",
        no_uses if use is None else use.count,
        None if use is None else use.last_time,
        "" if use is None else _command(use, mask),
    )


def _of_workspace(uses: Sequence[RuleUse], mask: Mask) -> Iterator[RuleInUse]:
    for use in uses:
        if use.owner == "workspace" and use.verdict != "allow":
            rule, why, origin = (
                rule_text(mask.cut_text(text)) for text in (use.rule, use.why, use.origin)
            )
            command = _command(use, mask)
            yield RuleInUse(
                use.verdict,
                rule,
                "",
                why,
                origin,
                "workspace",
                use.count,
                use.last_time,
                command,
            )


def _command(use: RuleUse, mask: Mask) -> str:
    """The last command with secrets masked. Masking comes first, because a shortened or escaped
    secret would not be found."""
    return visible(mask.cut_text(use.last_command[:_MAX_COMMAND]))[:_MAX_COMMAND]
