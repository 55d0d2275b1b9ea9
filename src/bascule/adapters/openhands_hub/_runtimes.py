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
"""running and paused are attached to, stopped is started anew."""
_POD: Final[Mapping[SessionState, str]] = {
    "starting": "pending",
    "ready": "ready",
    "paused": "ready",
    "stopping": "failed",
    "stopped": "failed",
    "failed": "failed",
}
"""The client asks again while it is pending and gives up when it failed. A paused one is resumed by
whatever is asked of it, so it is as good as ready."""


class Runtimes:
    """The sessions of `hub` that OpenHands asked for."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._sessions = hub.sessions

    async def start(self, who: Identity, asked: StartBody) -> dict[str, Any]:
        """A conversation's session once it is up: a new one, or the one it had, started again."""
        row = self._find(who, asked.session_id)
        if row is None:
            spec = spec_of(asked, self._sessions.default_spawner)
            wanted = SessionRequest(spec=spec, request_key=_KEY + asked.session_id)
            row = await self._sessions.create(who, wanted)
        else:
            await self._roused(who, row)
        return await self._described(who, await self._sessions.until_ready(row.id))

    async def show(self, who: Identity, conversation: str) -> dict[str, Any]:
        """By the id of the conversation. Raises `NoSuchSession`."""
        row = self._find(who, conversation)
        if row is None:
            raise NoSuchSession(f"There is no runtime for {conversation!r}", id=conversation)
        return await self._described(who, row)

    async def every(self, who: Identity) -> dict[str, Any]:
        rows = [row for row in self._sessions.list(who) if _conversation(row)]
        return {"runtimes": [self._standing(row) for row in rows]}

    def pod(self, who: Identity, runtime_id: str) -> dict[str, Any]:
        """How far a runtime is."""
        row = self._sessions.get(who, session_of(runtime_id))
        told = {**self._standing(row), "pod_status": _POD[row.state]}
        return told | ({"restart_reasons": [row.cause]} if row.cause else {})

    async def pause(self, who: Identity, runtime_id: str) -> dict[str, Any]:
        return self._standing(await self._sessions.pause(who, session_of(runtime_id)))

    async def resume(self, who: Identity, runtime_id: str) -> dict[str, Any]:
        row = await self._sessions.resume(who, session_of(runtime_id))
        return self._standing(await self._sessions.until_ready(row.id))

    async def wake(self, who: Identity, session_id: SessionId) -> None:
        """Have a session that rests, or that is just starting, do actions. Raises
        `SandboxStartFailed`.

        Its client could be told to resume it instead, but then waits for itself for ever: it sets
        its variables anew while it still holds the turn of the action that it was asked for.
        """
        row = await self._roused(who, self._sessions.get(who, session_id))
        if row.state == "starting":
            await self._sessions.until_ready(session_id)

    async def stop(self, who: Identity, runtime_id: str) -> dict[str, Any]:
        """As the client means it: the runtime is over and its files are gone. One that is to be
        found again is paused, or left."""
        row = self._sessions.get(who, session_of(runtime_id))
        await self._sessions.remove(who, row.id)
        return {**self._standing(row), "status": "stopped"}

    async def _roused(self, who: Identity, row: SessionRow) -> SessionRow:
        """One that rests, or is about to, goes on. Raises `NoSuchSession`."""
        if row.state == "stopping":
            await self._sessions.settled(row.id)
            row = self._sessions.get(who, row.id)
        if row.state in AT_REST or row.state == "paused":
            return await self._sessions.resume(who, row.id)
        return row

    def _find(self, who: Identity, conversation: str) -> SessionRow | None:
        key = who.owner, _KEY + conversation
        for row in self._sessions.list(who):
            if (row.owner, row.request_key) == key and not row.is_doomed:
                return row
        return None

    async def _described(self, who: Identity, row: SessionRow) -> dict[str, Any]:
        told = self._standing(row)
        told["session_api_key"] = await self._hub.tokens.for_session(row.id, owner=row.owner)
        if row.state == "ready":
            with suppress(InvalidState):  # another client is ending it; who enters it is told
                ports = await self._sessions.declared_ports(who, row.id)
                told["work_hosts"] = {
                    self._hub.addresses.app(row.id, n): port for n, port in ports.items()
                }
        return told

    def _standing(self, row: SessionRow) -> dict[str, Any]:
        return {
            "runtime_id": runtime_of(row.id),
            "session_id": _conversation(row),
            "status": _STATUS[row.state],
            "url": self._hub.addresses.hub(f"{PREFIX}/{row.id}"),
        }


def runtime_of(session_id: SessionId) -> str:
    """The client makes addresses of it, at the root of the host: so it begins with our prefix."""
    return f"{PREFIX}/{session_id}"[1:]


def session_of(runtime_id: str) -> SessionId:
    """Raises `NoSuchSession` for what cannot be the id of a runtime."""
    first = runtime_of(SessionId(""))
    if not runtime_id.startswith(first):
        raise NoSuchSession(f"There is no runtime {runtime_id!r}", id=runtime_id)
    return SessionId(runtime_id.removeprefix(first))


def _conversation(row: SessionRow) -> str:
    """The id that OpenHands knows it by; empty for a session that others asked for."""
    key = row.request_key or ""
    return key.removeprefix(_KEY) if key.startswith(_KEY) else ""
