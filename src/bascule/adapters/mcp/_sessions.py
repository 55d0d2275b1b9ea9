"""The sessions of a hub that an MCP client can choose from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from bascule.core.contracts import Runtime
from bascule.core.errors import NoSuchSession, UsageError
from bascule.link.sessions import SessionCalls
from bascule.runtime.cloud import CloudRuntime


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """A session in the list for a client."""

    id: str
    name: str
    state: str


class ClientSessions(Protocol):
    """The sessions that one client may use."""

    async def list(self) -> Sequence[SessionSummary]: ...

    async def open(self, session_id: str) -> Runtime:
        """A connected runtime in the session, which is started if necessary. The caller closes
        the runtime."""


def choose_session(sessions: Sequence[SessionSummary], which: str) -> SessionSummary:
    """The session with the id `which`, or else the only session with this name.

    Raises `NoSuchSession`, or `UsageError` if several sessions have the name.
    """
    matching = [each for each in sessions if each.id == which] or [
        each for each in sessions if which and each.name == which
    ]
    if not matching:
        raise NoSuchSession(f"There is no session {which!r}", id=which)
    if len(matching) > 1:
        ids = ", ".join(each.id for each in matching)
        raise UsageError(f"{len(matching)} sessions are named {which!r}. Name one by its id: {ids}")
    return matching[0]


class RemoteSessions(ClientSessions):
    """The sessions of the hub at `url` that `token` may use."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._token = token

    async def list(self) -> Sequence[SessionSummary]:
        async with SessionCalls(self._url, self._token) as calls:
            found = await calls.sessions()
        return [SessionSummary(id=each.id, name=each.name, state=each.state) for each in found]

    async def open(self, session_id: str) -> Runtime:
        runtime = CloudRuntime(self._url, self._token, session_id=session_id, default_timeout=None)
        try:
            await runtime.connect()
        except BaseException:
            await runtime.aclose()
            raise
        return runtime
