"""The hub's REST calls about sessions."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from bascule.core.contracts import OnStage
from bascule.core.errors import HubUnreachable, SandboxStartFailed
from bascule.core.sessions import SessionId, SessionState
from bascule.core.windows import Window
from bascule.wire import from_json
from bascule.wire.windows import decode_window

from .http import target
from .hub_calls import HubCalls, value_of
from .sse import EventReader

_SLOW_TIMEOUT = 120.0
"""Timeout, in seconds, of requests that wait for processes to start or end."""


@dataclass(frozen=True, slots=True)
class HubSession:
    """A session as the hub describes it."""

    id: SessionId
    name: str
    state: SessionState
    stage: str
    """The current stage of a start, as text for people; empty otherwise."""
    cause: str
    """Why the session failed; empty otherwise."""
    vscode_url: str
    metadata: Mapping[str, Any] = field(repr=False)
    """The hub's complete answer."""

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        fields = ("id", "name", "state", "stage", "cause", "vscode_url")
        return cls(**{name: answer[name] for name in fields}, metadata=answer)


@dataclass(frozen=True, slots=True)
class HubSessionEvent:
    """An event of a session.

    Pass `number` to `events` to continue after this event. The number is 0 if the hub does not
    store the event.
    """

    number: int
    name: str
    data: Mapping[str, Any]


class SessionCalls(HubCalls):
    """Calls the hub at `url` with a token of scope agent or admin."""

    async def create(self, body: Mapping[str, Any], *, key: str = "") -> HubSession:
        """Create a session. A repeated request with the same `key` returns the same session."""
        headers = {"Idempotency-Key": key} if key else {}
        return HubSession.of(
            await self._request("POST", "/api/sessions", dict(body), headers=headers)
        )

    async def sessions(self) -> Sequence[HubSession]:
        return [HubSession.of(each) for each in await self._request("GET", "/api/sessions")]

    async def session(self, session_id: str) -> HubSession:
        """The session. Raises `NoSuchSession`."""
        return HubSession.of(await self._request("GET", _session_path(session_id)))

    async def pause(self, session_id: str) -> HubSession:
        return HubSession.of(await self._request("POST", _session_path(session_id, "pause")))

    async def resume(self, session_id: str, changes: Mapping[str, Any] | None = None) -> HubSession:
        """Resume a session. `changes`: new `egress` and `shells` for a stopped or failed one."""
        body = dict(changes) if changes else None
        return HubSession.of(await self._request("POST", _session_path(session_id, "resume"), body))

    async def stop(self, session_id: str) -> HubSession:
        return HubSession.of(
            await self._request("POST", _session_path(session_id, "stop"), timeout=_SLOW_TIMEOUT)
        )

    async def remove(self, session_id: str, *, force: bool = False) -> None:
        """Remove a session. Without `force`, raises `ForkNotMerged` for a fork with unmerged
        changes."""
        path = target(f"/api/sessions/{session_id}", force="true" if force else None)
        await self._request("DELETE", path, timeout=_SLOW_TIMEOUT)

    async def fork(self, session_id: str, body: Mapping[str, Any]) -> Sequence[HubSession]:
        """Create forks of a session; returns when its workspace is copied."""
        request = self._request(
            "POST", _session_path(session_id, "forks"), dict(body), timeout=None
        )
        return [HubSession.of(each) for each in await request]

    async def forks(self, session_id: str) -> Mapping[str, Any]:
        """The forks of a session, their unmerged changes, and the paths that several changed."""
        answer = await self._request("GET", _session_path(session_id, "forks"), timeout=None)
        return dict(answer)

    async def merge(self, session_id: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Merge the changes of a fork into the session that it was forked from."""
        return dict(
            await self._request(
                "POST", _session_path(session_id, "merge"), dict(body), timeout=None
            )
        )

    async def window(self, session_id: str) -> Window:
        """The session's own window, opened if necessary."""
        request = self._request("POST", _session_path(session_id, "window"), timeout=_SLOW_TIMEOUT)
        return decode_window(await request)

    async def ports(self, session_id: str) -> Sequence[Mapping[str, Any]]:
        return list(await self._request("GET", _session_path(session_id, "ports")))

    async def rules_in_use(self, session_id: str) -> Sequence[Mapping[str, Any]]:
        """The session's rules for commands and what each decided; needs scope admin."""
        return list(await self._request("GET", _session_path(session_id, "rules")))

    async def logs(self, session_id: str, *, lines: int = 100) -> str:
        answer = await self._request("GET", f"{_session_path(session_id, 'logs')}?lines={lines}")
        return str(answer["text"])

    async def upload_archive(self, body: AsyncIterable[bytes]) -> str:
        """Upload an archive; returns its id, for `workspace.archive` of a new session."""
        headers = {"Content-Type": "application/octet-stream"}
        reply = await self._http.request("POST", "/api/archives", body=body, headers=headers)
        return str(value_of(reply.status, reply.body)["archive"])

    async def events(self, session_id: str, *, after: int = 0) -> AsyncIterator[HubSessionEvent]:
        """Yield the events after number `after`, then new ones, until the hub ends the stream."""
        path = f"{_session_path(session_id, 'events')}?after={after}"
        async with self._http.stream("GET", path) as reply:
            if reply.status != 200:
                value_of(reply.status, await reply.read())
            reader = EventReader()
            async for chunk in reply.chunks():
                for event in reader.feed(chunk):
                    yield HubSessionEvent(int(event.id or 0), event.name, from_json(event.data))

    async def until_ready(self, session_id: str, *, on_stage: OnStage | None = None) -> HubSession:
        """Wait until a session has started; raises `SandboxStartFailed` with the cause.

        If the hub restarts meanwhile, this reconnects: the restarted hub continues the start.
        """
        after = 0
        while True:
            try:
                async for event in self.events(session_id, after=after):
                    after = event.number or after
                    if event.name == "stage" and on_stage is not None:
                        on_stage(event.data["stage"])
                    elif event.name in ("state", "removed"):
                        session = await self.session(session_id)
                        if session.state == "failed":
                            raise SandboxStartFailed(session.cause, session_id=session_id)
                        if session.state != "starting":
                            return session
            except HubUnreachable as error:
                if error.detail.get("sent") is False:
                    raise
            await self._http.wait_until_listening()


def _session_path(session_id: str, verb: str = "") -> str:
    return target(f"/api/sessions/{session_id}" + (f"/{verb}" if verb else ""))
