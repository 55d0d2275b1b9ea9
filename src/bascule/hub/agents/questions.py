"""Questions to people about an agent that works in a session or beside a window."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

from bascule.core.errors import HubUnreachable
from bascule.core.visible_text import visible
from bascule.hub.approvals import Approvals, AskingAgent, Question

from .messages import AgentQuestionAnswer, AgentQuestionBody

_PATIENCE: Final = timedelta(days=1)
_SUMMARY: Final = 120
_REASON: Final = 300
_DETAIL: Final = 30_000
"""Maximum characters of a request that a question shows. Longer ones can only be denied."""


class AgentQuestions:
    """Asks people while a caller waits for the answer. `finish` cancels all waiting calls."""

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals
        self._waiting: set[asyncio.Future[AgentQuestionAnswer]] = set()
        self._is_finished = False

    async def ask(
        self, body: AgentQuestionBody, *, agent: str, owner: str, gone: Coroutine[Any, Any, None]
    ) -> AgentQuestionAnswer | None:
        """Ask about `body`. None if `gone`, which waits until the caller disconnects, ends first.

        The question is withdrawn in any case. Raises the errors of `Approvals.ask`, and
        `HubUnreachable` when the hub stops.
        """
        answer: asyncio.Future[AgentQuestionAnswer] = asyncio.get_running_loop().create_future()

        async def on_answer(_question: Question, text: str, by: str) -> None:
            if not answer.done():
                is_allowed = text != "deny"
                answer.set_result(
                    AgentQuestionAnswer(answer="once" if is_allowed else "deny", by=by)
                )

        if self._is_finished:
            gone.close()
            raise HubUnreachable("The hub is stopping")
        asker = AskingAgent(body.session_id, body.window_id, on_answer, owner)
        leaving = asyncio.ensure_future(gone)
        self._waiting.add(answer)
        try:
            self._approvals.ask(asker, {**_question(body), "agent": agent})
            pending: set[asyncio.Future[Any]] = {answer, leaving}
            await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            if answer.cancelled():
                raise HubUnreachable("The hub is stopping")
            return answer.result() if answer.done() else None
        finally:
            self._waiting.discard(answer)
            leaving.cancel()
            self._approvals.withdraw(asker)

    def finish(self) -> None:
        """Withdraw all questions, so that a stopping server does not wait for them."""
        self._is_finished = True
        for each in self._waiting:
            each.cancel()


def _question(body: AgentQuestionBody) -> dict[str, Any]:
    """The question in the same form as those of sandboxes and windows."""
    detail, summary = visible(body.detail), visible(body.title).split("\n")[0]
    is_whole = len(detail) <= _DETAIL
    reason = visible(body.reason)[:_REASON] or "the agent asks before it does this"
    return {
        "id": str(uuid4()),
        "cause": str(body.cause),
        "digest": hashlib.sha256(body.detail.encode("utf-8", "surrogatepass")).hexdigest(),
        "kind": "call_tool_mcp",
        "summary": summary if len(summary) <= _SUMMARY else f"{summary[: _SUMMARY - 1]}…",
        "detail": detail[:_DETAIL],
        "is_whole": is_whole,
        "detail_length": len(detail),
        "warnings": [],
        "parts": [{"text": detail[:_REASON], "verdict": "ask", "reason": reason}],
        "proposals": [],
        "choices": ["once", "deny"] if is_whole else ["deny"],
        "expires": (datetime.now(UTC) + _PATIENCE).isoformat(),
    }
