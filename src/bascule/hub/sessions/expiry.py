"""Pauses or removes sessions when their lifetime is over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from bascule.core.contracts import Closable
from bascule.core.errors import BasculeError, NoSuchSession
from bascule.core.sessions import SessionExpiry, SessionId

from .lifecycle import SandboxLifecycle
from .rows import SessionRow
from .session_table import SessionTable
from .tasks import Tasks

logger = logging.getLogger(__name__)

_RETRY: Final = 30.0
"""Seconds until a session that could not be paused or removed is tried again."""


class SessionExpiries(Closable):
    """Waits for the next lifetime that ends. Lifetimes are stored, so they survive the hub."""

    def __init__(
        self,
        table: SessionTable,
        lifecycle: SandboxLifecycle,
        *,
        clock: Callable[[], float],
        until_ready: Callable[[SessionId], Awaitable[SessionRow]],
    ) -> None:
        self._table = table
        self._lifecycle = lifecycle
        self._clock = clock
        self._until_ready = until_ready
        self._tasks = Tasks()
        self._changed = asyncio.Event()
        self._retries: dict[SessionId, float] = {}

    def open(self) -> None:
        self._tasks.start("expiries", self._run())

    async def aclose(self) -> None:
        await self._tasks.aclose()

    def on_change(self) -> None:
        """Call this after the lifetime of a session has changed, or a session was created."""
        self._changed.set()

    async def set_expiry(self, session_id: SessionId, expiry: SessionExpiry | None) -> None:
        row = self._table.get(session_id)
        self._retries.pop(session_id, None)
        await self._table.change(session_id, spec=replace(row.spec, expiry=expiry))
        self._changed.set()

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            now = self._clock()
            times = {row.id: self._time(row) for row in self._table.all()}
            for session_id, time in times.items():
                if time <= now and session_id not in self._tasks:
                    self._retries[session_id] = now + _RETRY
                    self._tasks.start(session_id, self._expire(session_id))
            next_time = min((time for time in times.values() if time > now), default=None)
            with suppress(TimeoutError):
                async with asyncio.timeout(None if next_time is None else next_time - now):
                    await self._changed.wait()

    def _time(self, row: SessionRow) -> float:
        """When to pause or remove the session; infinity: never."""
        expiry = row.spec.expiry
        if expiry is None or expiry.is_over or row.is_being_removed:
            return float("inf")
        return max(expiry.at, self._retries.get(row.id, 0))

    async def _expire(self, session_id: SessionId) -> None:
        try:
            await self._end_lifetime(session_id)
        except NoSuchSession:
            pass
        except BasculeError as error:
            logger.warning("session %s has expired, and: %s", session_id, error.message)
        except Exception:
            logger.exception("session %s has expired and could not be ended", session_id)
        self._changed.set()

    async def _end_lifetime(self, session_id: SessionId) -> None:
        row = self._table.get(session_id)
        expiry = row.spec.expiry
        if expiry is None:
            return
        if expiry.action == "remove":
            await self._table.audit(None, row, "remove", why="its lifetime is over")
            latest = self._table.get(session_id).spec.expiry
            if latest is None or latest.action != "remove" or latest.at > self._clock():
                return  # it was changed while the audit entry was written
            await self._table.change(session_id, is_being_removed=True)
            await self._lifecycle.remove(session_id)
            return
        if row.state == "starting":
            row = await self._until_ready(session_id)
        if row.state == "ready":
            await self._lifecycle.pause(session_id, None)
        expiry = self._table.get(session_id).spec.expiry
        if expiry is not None and expiry.at <= self._clock():  # it was not prolonged meanwhile
            await self.set_expiry(session_id, replace(expiry, is_over=True))
