"""Runtimes of OpenHands V0: each is a session of the hub, found by the id of its conversation."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from bascule.core.errors import InvalidState, NoSuchSession
from bascule.core.sessions import SessionId, SessionState
from bascule.hub import Hub, Identity
from bascule.hub.sessions.rows import SessionRow
from bascule.hub.sessions.session_request import SessionRequest
from bascule.hub.sessions.states import AT_REST

from ._start import StartBody, spec_of

PREFIX: Final = "/openhands/v0"

_KEY: Final = "openhands-v0 "
_STATUS: Final[Mapping[SessionState, str]] = {
    "starting": "running",
    "ready": "running",
    "paused": "paused",
    "stopping": "stopped",
    "stopped": "stopped",
    "failed": "stopped",
}
"""OpenHands' client attaches to a running or paused runtime, and starts a stopped runtime again."""
_POD: Final[Mapping[SessionState, str]] = {
    "starting": "pending",
    "ready": "ready",
    "paused": "ready",
    "stopping": "failed",
    "stopped": "failed",
    "failed": "failed",
}
"""The client polls a pending pod and gives up on a failed pod. Any request resumes a paused
session, so a paused session counts as ready."""


class Runtimes:
    """The sessions of `hub` that OpenHands created."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._sessions = hub.sessions

    async def start(self, who: Identity, body: StartBody) -> dict[str, Any]:
        """Start or create the conversation's session, and wait until the session is ready."""
        row = self._find(who, body.session_id)
        if row is None:
            spec = spec_of(body, self._sessions.default_spawner)
            request = SessionRequest(spec=spec, request_key=_KEY + body.session_id)
            row = await self._sessions.create(who, request)
        else:
            await self._ensure_running(who, row)
        return await self._describe(who, await self._sessions.until_ready(row.id))

    async def show(self, who: Identity, conversation: str) -> dict[str, Any]:
        """Describe the runtime of a conversation. Raises `NoSuchSession`."""
        row = self._find(who, conversation)
        if row is None:
            raise NoSuchSession(f"There is no runtime for {conversation!r}", id=conversation)
        return await self._describe(who, row)

    async def every(self, who: Identity) -> dict[str, Any]:
        rows = [row for row in self._sessions.list(who) if _conversation(row)]
        return {"runtimes": [self._description(row) for row in rows]}

    def pod(self, who: Identity, runtime_id: str) -> dict[str, Any]:
        """The status of a runtime, with the status of its pod."""
        row = self._sessions.get(who, session_of(runtime_id), needs="own")
        answer = {**self._description(row), "pod_status": _POD[row.state]}
        return answer | ({"restart_reasons": [row.cause]} if row.cause else {})

    async def pause(self, who: Identity, runtime_id: str) -> dict[str, Any]:
        return self._description(await self._sessions.pause(who, session_of(runtime_id)))

    async def resume(self, who: Identity, runtime_id: str) -> dict[str, Any]:
        row = await self._sessions.resume(who, session_of(runtime_id))
        return self._description(await self._sessions.until_ready(row.id))

    async def wake(self, who: Identity, session_id: SessionId) -> None:
        """Resume a paused or stopped session, and wait until it is ready. Raises
        `SandboxStartFailed`.

        The hub resumes the session, because OpenHands' client would deadlock. After a resume, the
        client sets its variables with an action, while it still holds the lock of the first action.
        """
        row = await self._ensure_running(who, self._sessions.get(who, session_id))
        if row.state == "starting":
            await self._sessions.until_ready(session_id)

    async def stop(self, who: Identity, runtime_id: str) -> dict[str, Any]:
        """Remove a runtime and its files, which is the meaning of "stop" for OpenHands' client. To
        keep a runtime, the client pauses it or leaves it running."""
        row = self._sessions.get(who, session_of(runtime_id))
        await self._sessions.remove(who, row.id)
        return {**self._description(row), "status": "stopped"}

    async def _ensure_running(self, who: Identity, row: SessionRow) -> SessionRow:
        """Resume the session if it is paused, stopped or stopping. Raises `NoSuchSession`."""
        if row.state == "stopping":
            await self._sessions.until_stopped(row.id)
            row = self._sessions.get(who, row.id)
        if row.state in AT_REST or row.state == "paused":
            return await self._sessions.resume(who, row.id)
        return row

    def _find(self, who: Identity, conversation: str) -> SessionRow | None:
        key = who.owner, _KEY + conversation
        for row in self._sessions.list(who):
            if (row.owner, row.request_key) == key and not row.is_being_removed:
                return row
        return None

    async def _describe(self, who: Identity, row: SessionRow) -> dict[str, Any]:
        answer = self._description(row)
        answer["session_api_key"] = await self._hub.tokens.for_session(row.id, owner=row.owner)
        if row.state == "ready":
            with suppress(InvalidState):  # the session is stopping; the next action reports that
                ports = await self._sessions.declared_ports(who, row.id)
                answer["work_hosts"] = {
                    self._hub.addresses.app(row.id, n): port for n, port in ports.items()
                }
        return answer

    def _description(self, row: SessionRow) -> dict[str, Any]:
        return {
            "runtime_id": runtime_of(row.id),
            "session_id": _conversation(row),
            "status": _STATUS[row.state],
            "url": self._hub.addresses.hub(f"{PREFIX}/{row.id}"),
        }


def runtime_of(session_id: SessionId) -> str:
    """The runtime id of a session. The client builds URLs from the host and this id, so it begins
    with `PREFIX`."""
    return f"{PREFIX}/{session_id}"[1:]


def session_of(runtime_id: str) -> SessionId:
    """The session of a runtime id. Raises `NoSuchSession` if the text is not a runtime id."""
    first = runtime_of(SessionId(""))
    if not runtime_id.startswith(first):
        raise NoSuchSession(f"There is no runtime {runtime_id!r}", id=runtime_id)
    return SessionId(runtime_id.removeprefix(first))


def _conversation(row: SessionRow) -> str:
    """The id of the OpenHands conversation; empty for a session that OpenHands did not create."""
    key = row.request_key or ""
    return key.removeprefix(_KEY) if key.startswith(_KEY) else ""
