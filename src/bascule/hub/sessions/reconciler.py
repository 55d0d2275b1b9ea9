"""Reconciles session rows with running sandboxes, at the start of the hub and every minute."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from bascule.core.errors import BasculeError
from bascule.core.sessions import RunningSandbox, SessionId
from bascule.hub.metrics import HubMetrics
from bascule.hub.records.records import Records
from bascule.hub.settings import HubSettings
from bascule.hub.store import Store

from .disk import DiskLimit
from .idle import Sample, due, last_active
from .lifecycle import SandboxLifecycle
from .repairs import Repair, repairs
from .rows import SessionRow
from .session_table import SessionTable
from .tasks import Tasks
from .windows import SessionWindows

logger = logging.getLogger(__name__)

_DAY: Final = 86400.0
_MAX_CHECKS: Final = 16
"""Maximum number of sessions checked at the same time. The check of an unresponsive session takes
half a minute."""


class Reconciler:
    """Repairs differences between rows and sandboxes, pauses or stops idle sessions, and deletes
    old data."""

    def __init__(
        self,
        settings: HubSettings,
        store: Store,
        *,
        table: SessionTable,
        lifecycle: SandboxLifecycle,
        records: Records,
        windows: SessionWindows,
        metrics: HubMetrics,
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._store = store
        self._table = table
        self._lifecycle = lifecycle
        self._records = records
        self._windows = windows
        self._metrics = metrics
        self._clock = clock
        self._tasks = Tasks()
        self._samples: dict[SessionId, Sample] = {}
        self._disk = DiskLimit(
            settings.max_session_disk, lifecycle.disk_bytes, interval=settings.reconcile_interval
        )

    async def open(self) -> None:
        await self.reconcile()
        self._tasks.start("reconcile", self._reconcile_periodically())

    async def aclose(self) -> None:
        await self._tasks.aclose()

    async def reconcile(self) -> None:
        began = time.monotonic()
        await self._reconcile()
        self._metrics.count_reconciliation(time.monotonic() - began, end=self._clock())

    async def _reconcile(self) -> None:
        await self._repair_all()
        slots = asyncio.Semaphore(_MAX_CHECKS)
        async with asyncio.TaskGroup() as checks:
            for row in self._table.all():
                if not self._lifecycle.is_busy(row.id):
                    checks.create_task(self._check(row, slots))
        self._samples = {key: each for key, each in self._samples.items() if key in self._table}
        self._disk.keep({row.id for row in self._table.all()})
        in_use = {row.spec.workspace.archive for row in self._table.all() if not row.is_filled}
        await asyncio.to_thread(self._lifecycle.archives.sweep, in_use)
        await self._lifecycle.sweep_bases()
        await asyncio.to_thread(self._lifecycle.reserve.restore)
        await self._records.sweep(
            {row.id for row in self._table.all()}, self._windows.registered_ids()
        )
        await self._store.forget(
            audit_before=self._clock() - self._settings.audit_days * _DAY,
            events_kept=self._settings.events_kept,
        )

    async def _reconcile_periodically(self) -> None:
        while True:
            await asyncio.sleep(self._settings.reconcile_interval)
            try:
                await self.reconcile()
            except Exception:
                self._metrics.count_failed_reconciliation()
                logger.exception("checking the sessions failed; the next check runs as planned")

    async def _repair_all(self) -> None:
        running, silent = await self._lifecycle.all_running()
        rows = self._table.all()
        ids = {row.id for row in rows} | set(running)
        busy = {each for each in ids if self._lifecycle.is_busy(each)}
        busy |= {row.id for row in rows if row.spec.spawner in silent}
        for needed in repairs(rows, running, busy):
            try:
                await self._repair(needed, running)
            except BasculeError as error:
                text = "session %s cannot be repaired (%s) now: %s"
                logger.warning(text, needed.session_id, needed.repair, error.message)
            except Exception:
                text = "session %s could not be repaired (%s); continuing with the others"
                logger.exception(text, needed.session_id, needed.repair)

    async def _repair(self, needed: Repair, running: Mapping[SessionId, RunningSandbox]) -> None:
        session_id = needed.session_id
        if needed.repair == "end":
            logger.warning("ending a sandbox that belongs to no session: %s", session_id)
            await self._lifecycle.end_orphan(session_id)
            return
        row = self._table.get(session_id)
        match needed.repair:
            case "remove":
                await self._lifecycle.remove(session_id)
            case "stop":
                await self._lifecycle.stop(session_id)
            case "start":
                self._lifecycle.start(row)
            case "fail":
                spawner = self._lifecycle.spawner(row.spec.spawner)
                log = await spawner.log_tail(session_id, lines=20)
                self._metrics.count_failed_session("sandbox_gone")
                await self._lifecycle.fail(row, f"its sandbox is gone\n{log}".strip())
            case "adopt":
                await self._lifecycle.adopt(row, running[session_id])

    async def _check(self, row: SessionRow, slots: asyncio.Semaphore) -> None:
        async with slots:
            await self._check_session(row)

    async def _check_session(self, row: SessionRow) -> None:
        """Fail the session if it exceeds its disk limit; pause or stop it if idle too long."""
        try:
            if row.state == "ready":
                await self._lifecycle.record(row.id)
                if (cause := await self._disk.excess_reason(row.id)) is not None:
                    await self._lifecycle.end(row.id, cause, metric="disk_limit")
                    return
                row = await self._with_activity(row)
            match due(row, self._clock(), self._settings):
                case "pause":
                    await self._lifecycle.pause(row.id, None)
                case "stop":
                    await self._table.audit(None, row, "stop")
                    await self._lifecycle.stop(row.id)
        except BasculeError as error:  # the session may just be ending; the next check will show
            logger.info("session %s could not be checked: %s", row.id, error.message)
        except Exception:
            logger.exception("session %s could not be checked; the others are checked", row.id)

    async def _with_activity(self, row: SessionRow) -> SessionRow:
        """The row with its last activity updated.

        A session whose action server does not answer counts as inactive. Otherwise a session could
        avoid being paused by stopping that server.
        """
        try:
            activity = await (await self._lifecycle.client(row.id)).activity()
        except BasculeError as error:
            logger.info("session %s does not report its activity: %s", row.id, error.message)
            return row
        now = Sample(self._clock(), activity.cpu_seconds)
        before, self._samples[row.id] = self._samples.get(row.id), now
        active = last_active(row, activity, before, now, busy_from=self._settings.idle_cpu)
        if active > row.last_active:
            await self._table.change(row.id, last_active=active)
        return self._table.get(row.id)
