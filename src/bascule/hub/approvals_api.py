"""The REST calls about questions and rules, for persons: no agent may answer its own question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request
from pydantic import BaseModel, Field

from bascule.core.sessions import SessionId
from bascule.core.windows import WindowId

from .api import identity_of
from .messages import MessageAnswer
from .sessions.service import Sessions
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


class RuleInUseAnswer(RuleAnswer):
    """A rule in one session, and the commands it decided on since the session's sandbox started."""

    made_by: Literal["hub", "workspace"]
    count: int | None
    """Number of commands that the rule decided on. Null: the session does not run."""
    last_time: float | None
    last_command: str


class ApprovalsApi:
    def __init__(self, sockets: Sockets, sessions: Sessions) -> None:
        self._sockets = sockets
        self._sessions = sessions

    def add_routes(self, app: FastAPI, require_scope: Callable[..., Any]) -> None:
        admin, person = [require_scope("admin")], [require_scope("admin", "member")]
        add = app.add_api_route
        add("/api/approvals", self.list_questions, dependencies=person)
        question_path = "/api/approvals/{place_id}/{question_id}"
        add(question_path, self.answer, methods=["POST"], dependencies=person)
        add("/api/rules", self.list_rules, dependencies=admin)
        add("/api/sessions/{session_id}/rules", self.rules_in_use, dependencies=admin)

    async def list_questions(self, request: Request) -> list[dict[str, Any]]:
        """The open questions of the windows and sessions that the caller may see, oldest first."""
        may_see = identity_of(request).may_see
        return [dict(each) for each in self._sockets.approvals.pending(may_see)]

    async def list_rules(self) -> list[RuleAnswer]:
        """The hub's rules for commands in sessions, in the order of its file."""
        return [RuleAnswer(**asdict(each)) for each in await self._sessions.rules.all_rules()]

    async def rules_in_use(self, session_id: str, request: Request) -> list[RuleInUseAnswer]:
        """The rules for commands of one session, and what each decided there."""
        who = identity_of(request)
        found = await self._sessions.rules_in_use(who, SessionId(session_id))
        return [RuleInUseAnswer(**asdict(each)) for each in found]

    async def answer(
        self, place_id: str, question_id: str, body: AnswerBody, request: Request
    ) -> MessageAnswer:
        """Answer a question of the window or session `place_id`. The first answer counts."""
        who = identity_of(request)
        await self._sockets.answer_as(who, WindowId(place_id), question_id, body.answer)
        return MessageAnswer(message=f"Answered: {body.answer}")
