"""The REST calls for programs that run an agent of their own, such as `bascule acp`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request

from bascule.core.actions import McpCall
from bascule.core.errors import HubUnreachable
from bascule.core.identity import EventId, now
from bascule.core.observations import McpResult
from bascule.core.sessions import SessionId
from bascule.core.windows import WindowId
from bascule.hub.api import identity_of
from bascule.hub.approvals import Approvals
from bascule.hub.identity import Identity
from bascule.hub.messages import MessageAnswer
from bascule.hub.records.record import Record
from bascule.hub.records.records import Records
from bascule.hub.sessions.service import Sessions
from bascule.hub.sockets import Sockets
from bascule.wire import encode_action, encode_observation

from .messages import (
    AgentPlaceBody,
    AgentQuestionAnswer,
    AgentQuestionBody,
    ToolCallBody,
    VerdictAnswer,
    VerdictBody,
)
from .questions import AgentQuestions


class AgentsApi:
    def __init__(
        self, sockets: Sockets, sessions: Sessions, *, approvals: Approvals, records: Records
    ) -> None:
        self._sockets = sockets
        self._sessions = sessions
        self._records = records
        self._questions = AgentQuestions(approvals)

    def add_routes(self, app: FastAPI, require_scope: Callable[..., Any]) -> None:
        agent = [require_scope("agent", "admin")]
        add = app.add_api_route
        add("/api/agent/verdicts", self.judge, methods=["POST"], dependencies=agent)
        add("/api/agent/questions", self.ask, methods=["POST"], dependencies=agent)
        add("/api/agent/tool-calls", self.record, methods=["POST"], dependencies=agent)

    def finish(self) -> None:
        self._questions.finish()

    async def judge(self, body: VerdictBody, request: Request) -> VerdictAnswer:
        """What the session's rules say about a command that an agent wants to run itself. Rules of
        a window are in the window, so a person decides there."""
        who = identity_of(request)
        self._owner(who, body)
        if not body.session_id:
            return VerdictAnswer(verdict="ask")
        client = await self._sessions.sandbox_client(who, SessionId(body.session_id))
        found = await client.judge(body.command, body.cwd)
        return VerdictAnswer(verdict=found.verdict, reason=found.reason)

    async def ask(self, body: AgentQuestionBody, request: Request) -> AgentQuestionAnswer:
        """Ask a person, and wait for the answer. The question is withdrawn if the caller
        disconnects."""
        who = identity_of(request)
        owner = self._owner(who, body)
        answer = await self._questions.ask(
            body, agent=who.name, owner=owner, gone=_disconnected(request)
        )
        if answer is None:
            raise HubUnreachable("The caller has disconnected")
        return answer

    async def record(self, body: ToolCallBody, request: Request) -> MessageAnswer:
        """Add a tool call that begins or ends to the timeline of the session or window."""
        who = identity_of(request)
        self._owner(who, body)
        record = await self._record(body)
        cause = EventId(str(body.id))
        if body.output is None:
            action = McpCall(body.name, body.arguments, id=cause, timestamp=now())
            record.note("action", {"event": encode_action(action), "who": who.name})
        else:
            text = f"Failed: {body.output}" if body.failed else body.output
            observation = McpResult(
                content=text,
                name=body.name,
                arguments=body.arguments,
                cause=cause,
                timestamp=now(),
            )
            entry = {"event": encode_observation(observation), "seconds": body.seconds}
            record.note("observation", entry)
        return MessageAnswer(message="Recorded")

    async def _record(self, place: AgentPlaceBody) -> Record:
        if place.session_id:
            return await self._records.of_session(SessionId(place.session_id))
        return await self._sockets.timelines.of(WindowId(place.window_id))

    def _owner(self, who: Identity, place: AgentPlaceBody) -> str:
        """The owner of the session or window. Raises an error if `who` may not act there."""
        if place.session_id:
            return self._sessions.get(who, SessionId(place.session_id)).owner
        return self._sockets.ensure_visible(who, WindowId(place.window_id)).owner


async def _disconnected(request: Request) -> None:
    """Return when the caller has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
