"""Streams of a session's events, and functions that wait for a state by reading such a stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from bascule.core.broadcaster import Broadcaster
from bascule.core.errors import HubUnreachable, SandboxStartFailed
from bascule.core.sessions import SessionId
from bascule.hub.store import Store

from .rows import EventRow, SessionRow
from .session_table import SessionTable

_HEARTBEAT: Final = 15.0
"""Seconds without an event after which an event stream gets a heartbeat."""


class EventStreams:
    """The event streams of all sessions. The table publishes new events to `broadcaster`."""

    def __init__(
        self, store: Store, table: SessionTable, broadcaster: Broadcaster[EventRow]
    ) -> None:
        self._store = store
        self._table = table
        self._broadcaster = broadcaster

    def close(self) -> None:
        """End all streams."""
        self._broadcaster.close()

    async def stream(
        self, session_id: SessionId, *, after: int = 0
    ) -> AsyncGenerator[EventRow | None, None]:
        """Stored events after number `after`, then new ones as they happen. None is a heartbeat."""
        with self._broadcaster.subscribe(session_id) as subscription:
            for row in await self._store.list_events(session_id, after=after):
                after = row.id
                yield row
            async for event in subscription.items(heartbeat=_HEARTBEAT):
                if event is None or event.id == 0 or event.id > after:
                    yield event

    async def until_ready(self, session_id: SessionId) -> SessionRow:
        """Wait until a start has ended. Raises `SandboxStartFailed` with the cause."""
        async with aclosing(self.stream(session_id)) as events:
            async for _ in events:
                row = self._table.get(session_id)
                if row.state == "failed":
                    raise SandboxStartFailed(row.cause, session_id=session_id)
                if row.state != "starting":
                    return row
        self._table.get(session_id)
        raise HubUnreachable("The hub stopped while the session was starting")

    async def until_stopped(self, session_id: SessionId) -> SessionRow | None:
        """Wait until a stop or removal has ended. None: the session is removed."""
        async with aclosing(self.stream(session_id)) as events:
            async for _ in events:
                row = self._table.find(session_id)
                if row is None or not (row.is_being_removed or row.state == "stopping"):
                    return row
        if session_id in self._table:
            raise HubUnreachable("The hub stopped while the session was ending")
        return None
