"""A question to a person about an action that rules do not allow."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal
from uuid import uuid4

from bascule.core.actions import Action
from bascule.core.visible_text import visible
from bascule.rules import CommandVerdict, Decision, Part
from bascule.rules.proposals import Proposal, proposals

ApprovalAnswer = Literal["once", "always", "deny"]

_SUMMARY: Final = 120
_DETAIL: Final = 30_000
"""Maximum characters of a request that a question shows. Longer ones can only be denied."""
_PARTS: Final = 50
_PART: Final = 300
"""Maximum number of parts that a question lists, and characters of each part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandQuestion:
    """What an agent wants to do, for a person who has to decide on it.

    `always` is possible if rules for all parts that ask can be proposed.
    """

    action: Action
    text: str
    """The exact text that runs if the person agrees."""
    parts: Sequence[Part]
    proposals: Sequence[Proposal] = ()
    timeout: float
    id: str = field(default_factory=lambda: str(uuid4()))

    @classmethod
    def about_command(
        cls, action: Action, text: str, decision: Decision, *, timeout: float
    ) -> CommandQuestion:
        found = proposals(decision)
        asking = [part for part in decision.parts if part.verdict is CommandVerdict.ASK]
        is_covered = all(part.words is not None for part in asking)
        return cls(
            action=action,
            text=text,
            parts=decision.parts,
            proposals=found if is_covered else (),
            timeout=timeout,
        )

    @property
    def choices(self) -> Sequence[ApprovalAnswer]:
        if self.proposals:
            return ("once", "always", "deny")
        return ("once", "deny")

    @property
    def digest(self) -> str:
        """Hash of the text. An answer has to repeat it, so that it belongs to this text only."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def reason(self) -> str:
        """Why a person is asked, in one line."""
        asking = [part for part in self.parts if part.verdict is CommandVerdict.ASK]
        reasons = [f"`{visible(part.text)[:_SUMMARY]}`: {part.reason}" for part in asking[:_PARTS]]
        if more := len(asking) - len(reasons):
            reasons.append(f"and {more} more")
        return "; ".join(reasons)

    def as_json(self) -> dict[str, Any]:
        """The form in which windows publish their questions too."""
        detail = visible(self.text)
        expires = datetime.now(UTC) + timedelta(seconds=self.timeout)
        summary = f"{self.action.kind} {detail}".split("\n")[0]
        return {
            "id": self.id,
            "cause": str(self.action.id),
            "digest": self.digest,
            "kind": self.action.kind,
            "summary": summary if len(summary) <= _SUMMARY else f"{summary[: _SUMMARY - 1]}…",
            "detail": detail[:_DETAIL],
            "is_whole": len(detail) <= _DETAIL,
            "detail_length": len(detail),
            "warnings": [],
            "parts": [
                {
                    "text": visible(part.text)[:_PART],
                    "verdict": part.verdict.value,
                    "reason": visible(part.reason)[:_PART],
                }
                for part in self.parts[:_PARTS]
            ],
            "proposals": [
                {"rule": list(each.rule.words), "text": visible(str(each.rule))}
                for each in self.proposals
            ],
            "choices": list(self.choices) if len(detail) <= _DETAIL else ["deny"],
            "expires": expires.isoformat(),
        }


Ask = Callable[[CommandQuestion], Awaitable[ApprovalAnswer]]
"""Asks a person. Cancelling withdraws the question."""
