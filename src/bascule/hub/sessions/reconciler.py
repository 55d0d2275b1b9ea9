"""The look at all sessions when the hub starts and every minute."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from bascule.core.errors import BasculeError
from bascule.core.sessions import RunningSandbox, SessionId
from bascule.hub.records.records import Records
from bascule.hub.settings import HubSettings
from bascule.hub.store import Store

from .disk import Measured
from .idle import Sample, due, last_active
from .lifecycle import Keeper
from .repairs import Needed, repairs
from .rows import SessionRow
from .session_table import Book
from .tasks import Tasks
from .windows import SessionWindows

logger = logging.getLogger(__name__)

_DAY: Final = 86400.0
_AT_ONCE: Final = 16
"""Sessions that are looked at together: some may take half a minute not to answer."""


class Looking:
    """Has rows and sandboxes agree, sees to sessions that nobody uses, and forgets what is old."""

    def __init__(
        self,
        settings: HubSettings,
        store: Store,
        *,
        book: Book,
        keeper: Keeper,
        records: Records,
        windows: SessionWindows,
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._store = store
        self._book = book
        self._keeper = keeper
        self._records = records
        self._windows = windows
        self._clock = clock
        self._tasks = Tasks()
        self._samples: dict[SessionId, Sample] = {}
        self._disk = Measured(settings.max_session_disk, keeper.disk, every=settings.look_every)

    async def open(self) -> None:
        await self.look()
        self._tasks.start("look", self._look_on())

    async def aclose(self) -> None:
        await self._tasks.aclose()

    async def look(self) -> None:
        await self._repair_all()
        turn = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as looks:
            for row in self._book.all():
                if not self._keeper.is_busy(row.id):
                    looks.create_task(self._see_to(row, turn))
        self._samples = {key: each for key, each in self._samples.items() if key in self._book}
        self._disk.keep({row.id for row in self._book.all()})
        in_use = {row.spec.workspace.archive for row in self._book.all() if not row.is_filled}
        await asyncio.to_thread(self._keeper.archives.sweep, in_use)
        await asyncio.to_thread(self._keeper.reserve.restore)
        await self._records.sweep({row.id for row in self._book.all()}, self._windows.connected())
        await self._store.forget(
            audit_before=self._clock() - self._settings.audit_days * _DAY,
            events_kept=self._settings.events_kept,
        )

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(self._settings.look_every)
            try:
                await self.look()
            except Exception:
                logger.exception("a look at the sessions failed; the next comes as planned")

    async def _repair_all(self) -> None:
        running, silent = await self._keeper.all_running()
        rows = self._book.all()
        ids = {row.id for row in rows} | set(running)
        busy = {each for each in ids if self._keeper.is_busy(each)}
        busy |= {row.id for row in rows if row.spec.spawner in silent}
        for needed in repairs(rows, running, busy):
            try:
                await self._repair(needed, running)
            except BasculeError as error:
                what = "session %s cannot be put right (%s) now: %s"
                logger.warning(what, needed.session_id, needed.repair, error.message)
            except Exception:
                what = "session %s could not be put right (%s); the others are seen to"
                logger.exception(what, needed.session_id, needed.repair)

    async def _repair(self, needed: Needed, running: Mapping[SessionId, RunningSandbox]) -> None:
        session_id = needed.session_id
        if needed.repair == "end":
            logger.warning("ending a sandbox that no session has a use for: %s", session_id)
            await self._keeper.end_stray(session_id)
            return
        row = self._book.get(session_id)
        match needed.repair:
            case "remove":
                await self._keeper.remove(session_id)
            case "stop":
                await self._keeper.stop(session_id)
            case "start":
                self._keeper.start(row)
            case "fail":
                spawner = self._keeper.spawner(row.spec.spawner)
                words = await spawner.last_words(session_id, lines=20)
                await self._keeper.fail(row, f"its sandbox is gone\n{words}".strip())
            case "adopt":
                await self._keeper.adopt(row, running[session_id])

    async def _see_to(self, row: SessionRow, turn: asyncio.Semaphore) -> None:
        async with turn:
            await self._see_to_one(row)

    async def _see_to_one(self, row: SessionRow) -> None:
        """End what takes too much; pause or stop what has been idle for long enough."""
        try:
            if row.state == "ready":
                await self._keeper.record(row.id)
                if (cause := await self._disk.excess(row.id)) is not None:
                    await self._keeper.end(row.id, cause)
                    return
                row = await self._measured(row)
            match due(row, self._clock(), self._settings):
                case "pause":
                    await self._keeper.pause(row.id, None)
                case "stop":
                    await self._book.note(None, row, "stop")
                    await self._keeper.stop(row.id)
        except BasculeError as error:  # it may be ending just now; the next look tells
            logger.info("session %s could not be looked at: %s", row.id, error.message)
        except Exception:
            logger.exception("session %s could not be looked at; the others are", row.id)

    async def _measured(self, row: SessionRow) -> SessionRow:
        """One that does not tell has done nothing that we know of: a session cannot stay awake by
        stopping its own server."""
        try:
            activity = await (await self._keeper.line(row.id)).activity()
        except BasculeError as error:
            logger.info("session %s does not say what it does: %s", row.id, error.message)
            return row
        now = Sample(self._clock(), activity.cpu_seconds)
        before, self._samples[row.id] = self._samples.get(row.id), now
        active = last_active(row, activity, before, now, busy_from=self._settings.idle_cpu)
        if active > row.last_active:
            await self._book.change(row.id, last_active=active)
        return self._book.get(row.id)
