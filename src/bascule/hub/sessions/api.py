"""The REST calls about sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Annotated, Any, Final

from fastapi import Body, FastAPI, Header, Path, Query, Request
from fastapi.responses import StreamingResponse

from bascule.core.actions import Action, ListCheckpoints, RestoreCheckpoint, ShowCheckpoint
from bascule.core.kinds import OBSERVATIONS
from bascule.core.sessions import SessionId
from bascule.hub.disconnects import disconnect_of
from bascule.hub.guard import ARCHIVES_PATH
from bascule.hub.identity import Identity
from bascule.hub.messages import MessageAnswer
from bascule.hub.proxy import HubAddresses
from bascule.runtime.verbs import DEFAULT_TIMEOUT, expect, with_timeout
from bascule.wire import decode_action, encode_observation, reply_envelope, to_json
from bascule.wire.windows import encode_window

from .messages import (
    ArchiveAnswer,
    LogAnswer,
    PortAnswer,
    RestoreBody,
    ResumeBody,
    SessionAnswer,
    SessionBody,
)
from .rows import EventRow, SessionRow
from .service import Sessions
from .session_request import SessionRequest
from .specs import spec_to_json

IdentityOf = Callable[[Request], Identity]
"""Returns the identity behind a request."""
Key = Annotated[str | None, Header(alias="Idempotency-Key", max_length=200)]
_MAX_INTEGER: Final = (1 << 63) - 1
"""The largest integer a database accepts."""
Number = Annotated[int, Query(ge=0, le=_MAX_INTEGER)]
CheckpointId = Annotated[int, Path(ge=1, le=_MAX_INTEGER)]
Paths = Annotated[list[str] | None, Query(max_length=1000)]


class SessionsApi:
    """REST calls on `Sessions`. A session that the caller may not see is reported as missing."""

    def __init__(
        self, sessions: Sessions, addresses: HubAddresses, *, identity_of: IdentityOf
    ) -> None:
        self._sessions = sessions
        self._addresses = addresses
        self._identity_of = identity_of

    def add_routes(self, app: FastAPI, require_scope: Callable[..., Any]) -> None:
        agent_or_admin = [require_scope("agent", "admin")]
        with_session_scope = [require_scope("agent", "admin", "session")]
        to_see = [require_scope("agent", "admin", "session", "viewer")]
        session_path = "/api/sessions/{session_id}"
        add = app.add_api_route
        add("/api/sessions", self.create, methods=["POST"], dependencies=agent_or_admin)
        add("/api/sessions", self.list_sessions, dependencies=to_see)
        add(session_path, self.show, dependencies=to_see)
        add(session_path, self.remove, methods=["DELETE"], dependencies=agent_or_admin)
        for verb in (self.pause, self.resume, self.stop):
            add(
                f"{session_path}/{verb.__name__}",
                verb,
                methods=["POST"],
                dependencies=agent_or_admin,
            )
        add(
            f"{session_path}/window", self.window, methods=["POST"], dependencies=with_session_scope
        )
        add(f"{session_path}/ports", self.ports, dependencies=to_see)
        add(
            f"{session_path}/events",
            self.events,
            dependencies=to_see,
            response_model=None,
        )
        add(f"{session_path}/logs", self.logs, dependencies=to_see)
        add(f"{session_path}/actions", self.act, methods=["POST"], dependencies=with_session_scope)
        checkpoints_path = f"{session_path}/checkpoints"
        add(checkpoints_path, self.checkpoints, dependencies=with_session_scope)
        add(f"{checkpoints_path}/{{number}}", self.checkpoint, dependencies=with_session_scope)
        add(
            f"{checkpoints_path}/{{number}}/restore",
            self.restore,
            methods=["POST"],
            dependencies=with_session_scope,
        )
        add(ARCHIVES_PATH, self.upload, methods=["POST"], dependencies=agent_or_admin)

    async def create(
        self, body: SessionBody, request: Request, idempotency_key: Key = None
    ) -> SessionAnswer:
        """Create a session. It starts in the background; `events` report the progress.

        Refused if another session of the same owner has this name. A repeated request with the
        same `Idempotency-Key` returns the same session.
        """
        spec = body.spec(self._sessions.default_spawner)
        session_request = SessionRequest(
            spec=spec,
            credential=body.credential(),
            request_key=idempotency_key,
            has_unique_name=True,
        )
        return self._answer(
            await self._sessions.create(self._identity_of(request), session_request)
        )

    async def list_sessions(self, request: Request) -> list[SessionAnswer]:
        """All sessions that the caller may see, oldest first."""
        return [self._answer(row) for row in self._sessions.list(self._identity_of(request))]

    async def show(self, session_id: str, request: Request) -> SessionAnswer:
        row = self._sessions.get(self._identity_of(request), SessionId(session_id), needs="view")
        return self._answer(row)

    async def remove(self, session_id: str, request: Request, force: bool = False) -> MessageAnswer:
        """End a session and remove its files. A host folder used as workspace stays.

        A fork with changes that are not merged is removed only with `force`.
        """
        await self._sessions.remove(self._identity_of(request), SessionId(session_id), force=force)
        return MessageAnswer(message="The session is removed")

    async def pause(self, session_id: str, request: Request) -> SessionAnswer:
        """Pause all processes of the session until `resume`."""
        row = await self._sessions.pause(self._identity_of(request), SessionId(session_id))
        return self._answer(row)

    async def resume(
        self, session_id: str, request: Request, body: ResumeBody | None = None
    ) -> SessionAnswer:
        """Resume a paused session, or start a stopped or failed one, optionally with changes."""
        who, changes = self._identity_of(request), {} if body is None else body.changes()
        row = await self._sessions.resume(who, SessionId(session_id), changes)
        return self._answer(row)

    async def stop(self, session_id: str, request: Request) -> SessionAnswer:
        """End the session's processes and keep its files."""
        row = await self._sessions.stop(self._identity_of(request), SessionId(session_id))
        return self._answer(row)

    async def window(self, session_id: str, request: Request) -> dict[str, Any]:
        """The session's own VS Code window, opened if necessary.

        The window stays open when no browser shows it.
        """
        who = self._identity_of(request)
        return encode_window(await self._sessions.window(who, SessionId(session_id)))

    async def ports(self, session_id: str, request: Request) -> list[PortAnswer]:
        """The apps that listen in a session, and their URLs."""
        found = await self._sessions.ports(self._identity_of(request), SessionId(session_id))
        return [
            PortAnswer(
                n=each.n,
                port=each.port,
                command=each.command,
                url=self._addresses.app(session_id, each.n),
            )
            for each in found
        ]

    async def logs(self, session_id: str, request: Request, lines: Number = 100) -> LogAnswer:
        """The last lines of the log of the session's action server, also after the server ended."""
        who = self._identity_of(request)
        text = await self._sessions.log_tail(who, SessionId(session_id), lines=lines)
        return LogAnswer(text=text)

    async def act(
        self,
        session_id: str,
        request: Request,
        event: dict[str, Any] = Body(),  # noqa: B008 - FastAPI reads the default value
    ) -> dict[str, Any]:
        """Run one action in a session and return its observation. Resumes a paused session."""
        action = with_timeout(decode_action(event), DEFAULT_TIMEOUT)
        async with disconnect_of(request) as disconnected:
            who = self._identity_of(request)
            observation = await self._sessions.act(
                who, SessionId(session_id), action, disconnected=disconnected
            )
        return reply_envelope(event, observation)

    async def checkpoints(self, session_id: str, request: Request) -> dict[str, Any]:
        """The checkpoints of a session's workspace, oldest first, and what they leave out."""
        return await self._act_on_checkpoints(session_id, request, ListCheckpoints())

    async def checkpoint(
        self, session_id: str, number: CheckpointId, request: Request, path: Paths = None
    ) -> dict[str, Any]:
        """The paths that one action changed, and the changes as a unified diff in `content`."""
        return await self._act_on_checkpoints(
            session_id, request, ShowCheckpoint(number, tuple(path or ()))
        )

    async def restore(
        self,
        session_id: str,
        number: CheckpointId,
        request: Request,
        body: RestoreBody | None = None,
    ) -> dict[str, Any]:
        """Undo what one action changed. With `dry_run`, only report what would be done."""
        options = body or RestoreBody()
        action = RestoreCheckpoint(
            number, tuple(options.paths), since=options.since, dry_run=options.dry_run
        )
        return await self._act_on_checkpoints(session_id, request, action)

    async def _act_on_checkpoints(
        self, session_id: str, request: Request, action: Action
    ) -> dict[str, Any]:
        observation = await self._sessions.act(
            self._identity_of(request), SessionId(session_id), action
        )
        event = encode_observation(expect(observation, OBSERVATIONS[action.kind]))
        return {"content": event["content"], **event["extras"]}

    async def events(
        self,
        session_id: str,
        request: Request,
        after: Number = 0,
        last_event_id: Annotated[int | None, Header(ge=0, le=_MAX_INTEGER)] = None,
    ) -> StreamingResponse:
        """Past and new events of a session, as server-sent events."""
        who = self._identity_of(request)
        self._sessions.get(who, SessionId(session_id), needs="view")
        body = self._stream(who, SessionId(session_id), last_event_id or after)
        return StreamingResponse(
            body, media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    async def _stream(
        self, who: Identity, session_id: SessionId, after: int
    ) -> AsyncIterator[bytes]:
        async with aclosing(self._sessions.events(session_id, after=after)) as events:
            async for row in events:
                session = self._sessions.find(session_id)
                if session is not None and self._sessions.access_of(who, session) is None:
                    return  # the owner does not share the session any more
                yield b": still here\n\n" if row is None else self._encode_event(row)

    async def upload(self, request: Request) -> ArchiveAnswer:
        """Upload a zip or tar for a workspace; pass its id in `workspace.archive`."""
        owner = self._identity_of(request).owner
        return ArchiveAnswer(archive=await self._sessions.archives.add(owner, request.stream()))

    def describe(self, row: SessionRow) -> dict[str, Any]:
        """A session as JSON, as these calls return it."""
        return self._answer(row).model_dump()

    def _answer(self, row: SessionRow) -> SessionAnswer:
        return SessionAnswer.of(row, spec_to_json(row.spec), self._addresses)

    def _encode_event(self, row: EventRow) -> bytes:
        data = dict(row.data)
        if row.kind == "port.opened":
            data["url"] = self._addresses.app(row.session_id, data["n"])
        number = b"" if row.id == 0 else b"id: %d\n" % row.id
        text = to_json({"time": row.time, **data})
        return b"%bevent: %b\ndata: %b\n\n" % (number, row.kind.encode(), text)
