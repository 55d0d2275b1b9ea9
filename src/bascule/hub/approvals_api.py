"""The REST calls about questions and rules, for admins: no agent may answer its own question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import FastAPI, Request
from pydantic import BaseModel, Field

from bascule.core.windows import WindowId

from .api import identity_of
from .messages import MessageAnswer
from .sessions.session_rules import SessionRules
from .sockets import Sockets


class AnswerBody(BaseModel):
    answer: Annotated[str, Field(max_length=100)]


class RuleAnswer(BaseModel):
    """A rule for commands in sessions. `why` has the reason, or who allowed it and when."""

    verdict: str
    rule: str
    agent: str
    why: str
    origin: str


class ApprovalsApi:
    def __init__(self, sockets: Sockets, rules: SessionRules) -> None:
        self._sockets = sockets
        self._rules = rules

    def add_routes(self, app: FastAPI, may: Callable[..., Any]) -> None:
        admin = [may("admin")]
        add = app.add_api_route
        add("/api/approvals", self.every, dependencies=admin)
        one = "/api/approvals/{place_id}/{question_id}"
        add(one, self.answer, methods=["POST"], dependencies=admin)
        add("/api/rules", self.list_rules, dependencies=admin)

    async def every(self) -> list[dict[str, Any]]:
        """The open questions of windows and sessions, oldest first."""
        return [dict(each) for each in self._sockets.approvals.pending()]

    async def list_rules(self) -> list[RuleAnswer]:
        """The hub's rules for commands in sessions, in the order of its file."""
        return [RuleAnswer(**asdict(each)) for each in await self._rules.all_rules()]

    async def answer(
        self, place_id: str, question_id: str, body: AnswerBody, request: Request
    ) -> MessageAnswer:
        """Answer a question of the window or session `place_id`. The first answer counts."""
        by = identity_of(request).name
        await self._sockets.answer(WindowId(place_id), question_id, body.answer, by=by)
        return MessageAnswer(message=f"Answered: {body.answer}")
