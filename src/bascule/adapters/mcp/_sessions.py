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
    """A session as it is listed."""

    id: str
    name: str
    state: str


class ClientSessions(Protocol):
    """The sessions that one client may use."""

    async def list(self) -> Sequence[SessionSummary]: ...

    async def open(self, session_id: str) -> Runtime:
        """Connected, and started when it was not. Whoever asked closes it."""


def chosen(sessions: Sequence[SessionSummary], which: str) -> SessionSummary:
    """By its id, else by its name, when only one has it. Raises `NoSuchSession`, `UsageError`."""
    fitting = [each for each in sessions if each.id == which] or [
        each for each in sessions if which and each.name == which
    ]
    if not fitting:
        raise NoSuchSession(f"There is no session {which!r}", id=which)
    if len(fitting) > 1:
        ids = ", ".join(each.id for each in fitting)
        raise UsageError(f"{len(fitting)} sessions are named {which!r}. Name one by its id: {ids}")
    return fitting[0]


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
