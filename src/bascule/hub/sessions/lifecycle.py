"""Starts, watches and ends the sandboxes of sessions."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Final

from bascule.core.contracts import Spawner
from bascule.core.errors import (
    BasculeError,
    CloneFailed,
    NoSuchSandbox,
    NotSupported,
    SandboxStartFailed,
)
from bascule.core.rate_limit import RateLimit
from bascule.core.sessions import RunningSandbox, SessionId, new_session_id
from bascule.hub.identity import Identity
from bascule.hub.metrics import FailureCause, HubMetrics
from bascule.hub.records.records import Records
from bascule.hub.settings import HubSettings
from bascule.hub.store import Store
from bascule.sandbox.session.ports import DECLARED

from .archives import UploadedArchives
from .fork_files import ForkFiles
from .hub_sockets import HubSockets
from .quotas import CLAIMS_WHILE_RUNNING
from .recording import Recordings
from .reserve import DiskReserve
from .rows import SessionRow
from .sandbox_client import SandboxClient
from .session_directories import SessionDirectories
from .session_questions import SessionQuestions
from .session_table import SessionTable
from .stages import Stages, within
from .states import AT_REST, RUNNING, invalid_state
from .tasks import Tasks
from .vault import Secrets, Vault
from .windows import SessionWindows

logger = logging.getLogger(__name__)

_EVENT_BURST: Final = 1000
_EVENTS_PER_SECOND: Final = 20.0
"""How many events of a sandbox the hub accepts at once, and per second after that. They are limited
because the hub stores each event."""


_MAX_COPIES: Final = 2
"""Maximum number of fork workspaces copied at the same time. A low limit makes the first fork ready
sooner."""


class SandboxLifecycle:
    """Starts, pauses and ends sandboxes, and keeps the session table in step with them.

    Pausing, resuming and ending hold the session's lock in `locks`. A start does not hold it, so
    that a stop can cancel the start.
    """

    def __init__(
        self,
        settings: HubSettings,
        store: Store,
        *,
        table: SessionTable,
        directories: SessionDirectories,
        spawners: Mapping[str, Spawner],
        hub_sockets: HubSockets,
        windows: SessionWindows,
        records: Records,
        questions: SessionQuestions,
        metrics: HubMetrics,
        base_path: Callable[[SessionId, int], str],
        on_end: Callable[[SessionId], None],
    ) -> None:
        self._metrics = metrics
        self._app_base_path = base_path
        self._hub_sockets = hub_sockets
        self._windows = windows
        self._on_end = on_end
        self._settings = settings
        self._store = store
        self._table = table
        self._spawners = dict(spawners)
        self._starts = Tasks()
        self._watches = Tasks()
        self._recordings = Recordings(records)
        self._questions = questions
        self._endings: set[asyncio.Future[SessionRow]] = set()
        """Stops and removals that have not finished."""
        self._new_bases: set[str] = set()
        """Snapshots whose forks are being created."""
        self._copy_slots = asyncio.Semaphore(_MAX_COPIES)
        self._sweep_lock = asyncio.Lock()
        self._clients: dict[SessionId, SandboxClient] = {}
        self.directories = directories
        self.vault = Vault(directories.secrets)
        self.reserve = DiskReserve(directories.reserve)
        self.forks = ForkFiles(directories.sessions, directories.bases, settings.max_fork_files)
        self.archives = UploadedArchives(
            directories.archives, max_bytes=settings.max_archive, lifetime=settings.archive_lifetime
        )
        self.locks: defaultdict[SessionId, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.running: dict[SessionId, RunningSandbox] = {}
        """Running and paused sandboxes."""
        self.unusable: dict[str, BasculeError] = {}
        """Errors of the spawners that do not work on this machine, by kind."""

    async def open(self) -> None:
        await asyncio.to_thread(self.directories.open)
        await asyncio.to_thread(self.vault.open)
        for kind, spawner in self._spawners.items():
            try:
                await spawner.open()
            except BasculeError as error:
                logger.warning("sessions of kind %s are not available: %s", kind, error.message)
                self.unusable[kind] = error

    async def aclose(self) -> None:
        await self._starts.aclose()
        await self._watches.aclose()
        await self._recordings.aclose()
        await asyncio.gather(*self._endings, return_exceptions=True)
        await self._hub_sockets.aclose()
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()
        for spawner in self._spawners.values():
            await spawner.aclose()

    # Queries --------------------------------------------------------------------------------

    def spawner(self, kind: str) -> Spawner:
        """The spawner of this kind.

        Raises `NotSupported`, or the error that makes it unusable here.
        """
        if kind in self.unusable:
            raise self.unusable[kind]
        spawner = self._spawners.get(kind)
        if spawner is None:
            available = ", ".join(self._spawners) or "none"
            raise NotSupported(f"This hub has no spawner {kind!r}; it has: {available}")
        return spawner

    @property
    def usable_spawners(self) -> Sequence[str]:
        """Kinds of spawner that work on this machine."""
        return [kind for kind in self._spawners if kind not in self.unusable]

    def spawner_states(self) -> Mapping[str, bool]:
        """Whether each spawner works on this machine."""
        return {kind: kind not in self.unusable for kind in self._spawners}

    @property
    def default_spawner(self) -> str:
        return next((kind for kind in self._spawners if kind not in self.unusable), "local")

    def is_busy(self, session_id: SessionId) -> bool:
        """Whether the session is being started, paused, resumed or ended."""
        return session_id in self._starts or self.locks[session_id].locked()

    async def all_running(self) -> tuple[dict[SessionId, RunningSandbox], set[str]]:
        """Every running sandbox, and the kinds of spawner that did not answer."""
        sandboxes: dict[SessionId, RunningSandbox] = {}
        silent = set(self.unusable)
        for kind, spawner in self._spawners.items():
            if kind in silent:
                continue
            try:
                running = await spawner.running()
                sandboxes |= {sandbox.session_id: sandbox for sandbox in running}
            except BasculeError as error:
                logger.warning("%s cannot list its sandboxes: %s", kind, error.message)
                silent.add(kind)
        return sandboxes, silent

    async def client(self, session_id: SessionId) -> SandboxClient:
        if session_id not in self._clients:
            key = (await self.secrets(session_id)).key
            # Another caller may have added a client during the await.
            self._clients.setdefault(session_id, self._new_client(session_id, key))
        return self._clients[session_id]

    def _new_client(self, session_id: SessionId, key: str) -> SandboxClient:
        running = self.running.get(session_id)
        return SandboxClient(
            self.directories.socket(session_id),
            key,
            uid=None if running is None else running.uid,
            max_reply=self._settings.message_bytes,
        )

    async def secrets(self, session_id: SessionId) -> Secrets:
        secrets = await asyncio.to_thread(self.vault.get, session_id)
        if secrets is None:
            raise SandboxStartFailed("the session's key is missing in the hub's state directory")
        return secrets

    # Starting -------------------------------------------------------------------------------

    def start(self, row: SessionRow) -> None:
        """Start the sandbox in the background; the session table shows the progress."""
        self._starts.start(row.id, self._start(row))

    async def _start(self, row: SessionRow) -> None:
        """Run all stages. If one fails or times out, mark the session `failed` with the cause."""
        began = time.monotonic()
        async with Stages(row.id, self._table) as stages:
            try:
                await self._start_in_stages(row, stages)
                self._metrics.count_start(row.spec.spawner, time.monotonic() - began)
            except Exception as error:
                self._metrics.count_failed_start(error)
                if isinstance(error, BasculeError):
                    message = error.message
                else:
                    logger.exception("session %s did not start", row.id)
                    message = f"{type(error).__name__}: {error}"
                await stages.until_published()
                await self.fail(row, f"{stages.stage}: {message}")

    async def _start_in_stages(self, row: SessionRow, stages: Stages) -> None:
        spawner, settings = self.spawner(row.spec.spawner), self._settings
        stages.set("preparing")
        secrets = await self.secrets(row.id)
        plan = await asyncio.to_thread(self.directories.plan, row, secrets)
        if row.spec.workspace.kind == "fork" and not row.is_filled:
            # Before the start, while the hub owns the files: the spawner changes their owner.
            stages.set("copying the files")
            async with within(settings.fill_timeout, "fill_timeout"), self._copy_slots:
                await self.forks.fill(row)
            await self._table.change(row.id, is_filled=True)
            row = replace(row, is_filled=True)
        plan = replace(plan, environment={**self._base_paths(row.id), **plan.environment})
        await self._hub_sockets.open(row.id, row.owner, self.directories.hub_socket(row.id))
        stages.set("starting the sandbox")
        async with within(settings.start_timeout, "start_timeout"):
            self.running[row.id] = await spawner.start(plan, on_stage=stages.set)
        await self._drop_client(row.id)
        await self.record(row.id)
        await self._questions.send_rules(row, await self.client(row.id))
        if not row.is_filled:
            await self._fill_workspace(row, secrets, stages)
        if row.spec.runtime == "vscode":
            stages.set("opening its window")
            await self._windows.open(row.id, await self.client(row.id), headless=True)
            await self._windows.wait_for_window(row.id, timeout=settings.start_timeout)
        await stages.until_published()
        await self._table.change_state(row.id, "ready")
        await self.watch(row)

    def _base_paths(self, session_id: SessionId) -> Mapping[str, str]:
        """Environment variables for apps that must know their base path before they start."""
        return {
            f"APP_BASE_PATH_{position}": f"{self._app_base_path(session_id, n)}/"
            for position, n in enumerate(DECLARED, start=1)
        }

    async def _fill_workspace(self, row: SessionRow, secrets: Secrets, stages: Stages) -> None:
        """Clone or unpack the workspace, unless the sandbox reports that it is ready already."""
        source, client = row.spec.workspace, await self.client(row.id)
        if source.kind in ("git", "archive"):
            stages.set("filling the workspace")
            async with within(self._settings.fill_timeout, "fill_timeout"):
                if (await client.workspace()).state == "ready":
                    pass
                elif source.kind == "git":
                    await self._clone(row, secrets, client)
                else:
                    await client.unpack(self.archives.read(source.archive))
        await self._table.change(row.id, is_filled=True)
        if source.archive:
            await self.archives.remove(source.archive)
        if secrets.credential is not None:
            await asyncio.to_thread(self.vault.put, row.id, replace(secrets, credential=None))

    async def _clone(self, row: SessionRow, secrets: Secrets, client: SandboxClient) -> None:
        source, timeout = row.spec.workspace, self._settings.fill_timeout
        try:
            await client.clone(source.url, source.ref, secrets.credential, timeout=timeout)
        except CloneFailed as error:
            match row.spec.egress.mode:
                case "off":
                    hint = "The session has no network access: its egress is off"
                case "proxy":
                    names = ", ".join(row.spec.egress.domains) or "none"
                    hint = f"The session's egress allows only public addresses of: {names}"
                case "open":
                    raise
            raise CloneFailed(f"{error.message}\n{hint}") from error

    async def adopt(self, row: SessionRow, running: RunningSandbox) -> None:
        """Take over a sandbox that an earlier hub process started."""
        self.running[row.id] = running
        if running.is_paused != (row.state == "paused"):
            await self._table.change_state(row.id, "paused" if running.is_paused else "ready")
        if row.id not in self._watches:
            await self._hub_sockets.open(row.id, row.owner, self.directories.hub_socket(row.id))
            await self.watch(row)
        await self.record(row.id)

    # Watching -------------------------------------------------------------------------------

    async def watch(self, row: SessionRow) -> None:
        if row.id not in self._watches:
            client = await self.client(row.id)
            self._watches.start(row.id, self._watch(row, client))

    async def record(self, session_id: SessionId) -> None:
        """Start to record the sandbox's timeline, unless it is being recorded already."""
        key = (await self.secrets(session_id)).key
        self._recordings.start(session_id, partial(self._new_client, session_id, key))

    async def _watch(self, row: SessionRow, client: SandboxClient) -> None:
        """Forward the sandbox's events. If the sandbox ends by itself, fail the session."""
        forwarding = asyncio.create_task(self._forward_events(row, client))
        try:
            end = await self.spawner(row.spec.spawner).wait_for_unexpected_end(row.id)
        finally:
            forwarding.cancel()
            await asyncio.gather(forwarding, return_exceptions=True)
        async with self.locks[row.id]:
            current = self._table.find(row.id)
            if current is not None and current.state in RUNNING and row.id not in self._starts:
                self._metrics.count_failed_session("sandbox_ended")
                await self.fail(row, f"its sandbox ended: {end}")

    async def _forward_events(self, row: SessionRow, client: SandboxClient) -> None:
        rate_limit = RateLimit(burst=_EVENT_BURST, per_second=_EVENTS_PER_SECOND)
        session_id = row.id
        try:
            with self._questions.connected(row, client) as asker:
                async for name, data in client.events():
                    await rate_limit.wait()
                    is_stopped = name == "state" and not data["vscode"]["running"]
                    if name == "vscode.stopped" or is_stopped:
                        self._windows.vscode_ended(session_id)
                    if not await self._questions.handle(asker, name, data) and name != "state":
                        await self._table.publish_event(session_id, name, data)
        except BasculeError as error:
            logger.debug("session %s sends no more events: %s", session_id, error.message)
        finally:
            self._windows.vscode_ended(session_id)

    # Pausing --------------------------------------------------------------------------------

    async def pause(self, session_id: SessionId, who: Identity | None) -> SessionRow:
        async with self.locks[session_id]:
            row = self._table.get(session_id)
            if row.state == "paused":
                return row
            if row.state != "ready":
                raise invalid_state(row.state, "be paused")
            await self.spawner(row.spec.spawner).pause(session_id)
            row = await self._table.change_state(session_id, "paused", verb="be paused")
            await self._table.audit(who, row, "pause")
            return row

    async def resume(self, session_id: SessionId, who: Identity | None) -> SessionRow:
        """Resume a paused session, or start a stopped or failed one. No effect on a running one."""
        async with self.locks[session_id]:
            row = self._table.get(session_id)
            match row.state:
                case "ready" | "starting":
                    return row
                case "paused":
                    await self.spawner(row.spec.spawner).resume(session_id)
                    row = await self._table.change_state(session_id, "ready", verb="be resumed")
                case "stopped" | "failed":
                    await self._starts.until_finished(session_id)
                    row = await self._table.change_state(session_id, "starting", verb="be resumed")
                    self.start(row)
                case "stopping":
                    raise invalid_state(row.state, "be resumed")
            await self._table.audit(who, row, "resume")
            return row

    # Ending ---------------------------------------------------------------------------------

    async def fail(self, row: SessionRow, cause: str) -> None:
        """End the sandbox and mark the session as failed, with `cause` as the reason."""
        await self._disconnect(row.id)
        if row.spec.spawner in self._spawners and row.spec.spawner not in self.unusable:
            await self.spawner(row.spec.spawner).stop(row.id, grace=0)
        await self._recordings.finish(row.id)
        await self._store.release(row.id, CLAIMS_WHILE_RUNNING)
        failed = await self._table.change_state(row.id, "failed", cause=cause)
        await self._table.audit(None, failed, "fail", cause=cause)
        logger.warning("session %s has failed: %s", row.id, failed.cause.partition("\n")[0])

    async def end(self, session_id: SessionId, cause: str, *, metric: FailureCause) -> None:
        """Fail a running session for a reason outside its sandbox, such as a full disk."""
        async with self.locks[session_id]:
            row = self._table.get(session_id)
            if row.state in RUNNING:
                self._metrics.count_failed_session(metric)
                await self.fail(row, cause)

    async def disk_bytes(self, session_id: SessionId) -> int:
        """Bytes on disk that the session's own files use."""
        row = self._table.get(session_id)
        return await self.spawner(row.spec.spawner).disk(self.directories.sessions / session_id)

    async def stop(self, session_id: SessionId) -> SessionRow:
        return await self._finish_though_cancelled(self._stop(session_id))

    async def remove(self, session_id: SessionId) -> SessionRow:
        return await self._finish_though_cancelled(self._remove(session_id))

    async def make_room(self, session_id: SessionId) -> bool:
        """On a full disk, free the reserve so that the session can be removed.

        The session is paused first, so that it cannot fill the disk again. Returns
        whether there was a reserve.
        """
        row = self._table.get(session_id)
        with suppress(NoSuchSandbox):
            await self.spawner(row.spec.spawner).pause(session_id)
        return await asyncio.to_thread(self.reserve.free)

    @asynccontextmanager
    async def new_base(self, row: SessionRow, *, with_secrets: bool) -> AsyncIterator[str]:
        """Take a snapshot of a session's workspace, for forks that the caller creates in the block.

        After the block, a snapshot that no session uses is removed.
        """
        kind = row.spec.spawner
        if not self.spawner(kind).shares_files:
            raise NotSupported(
                f"Sessions of the spawner {kind} cannot be forked: the hub cannot read their files"
            )
        base = new_session_id()
        self._new_bases.add(base)
        try:
            await self._take_snapshot(row, base, with_secrets=with_secrets)
            yield base
        finally:
            self._new_bases.discard(base)
            await asyncio.shield(self.sweep_bases())

    async def _take_snapshot(self, row: SessionRow, base: str, *, with_secrets: bool) -> None:
        """Take the snapshot in a thread. Cancelling stops the thread and waits for its end, so that
        the caller can remove the incomplete snapshot."""
        stopped = threading.Event()
        take = partial(
            self.forks.take, row, base, with_secrets=with_secrets, is_stopped=stopped.is_set
        )
        task = asyncio.ensure_future(asyncio.to_thread(take))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            stopped.set()
            await asyncio.wait({task})
            raise

    async def sweep_bases(self) -> None:
        """Remove the snapshots that no session uses."""
        async with self._sweep_lock:  # two threads must not remove the same files
            # List the snapshots first, so that a snapshot that begins meanwhile is not in the list.
            on_disk = await asyncio.to_thread(self.forks.snapshots)
            in_use = {row.spec.workspace.base for row in self._table.all()} | self._new_bases
            await asyncio.to_thread(self.forks.remove_snapshots, on_disk - in_use)

    async def end_orphan(self, session_id: SessionId) -> None:
        """End a sandbox that belongs to no session."""
        for kind, spawner in self._spawners.items():
            if kind not in self.unusable:
                await spawner.stop(session_id)
        if session_id not in self._table:
            await asyncio.to_thread(self.directories.remove_run, session_id)

    async def _finish_though_cancelled(self, work: Awaitable[SessionRow]) -> SessionRow:
        """Finish `work` even if the caller is cancelled."""
        task = asyncio.ensure_future(work)
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)
        return await asyncio.shield(task)

    async def _stop(self, session_id: SessionId) -> SessionRow:
        await self._starts.cancel(session_id)
        async with self.locks[session_id]:
            row = self._table.get(session_id)
            if row.state in AT_REST:
                return row
            await self._table.change_state(session_id, "stopping", verb="be stopped")
            await self._end_sandbox(row)
            return await self._table.change_state(session_id, "stopped")

    async def _remove(self, session_id: SessionId) -> SessionRow:
        await self._starts.cancel(session_id)
        async with self.locks[session_id]:
            row = await self._table.change_state(session_id, "stopping", verb="be removed")
            await self._end_sandbox(row)
            # The files may belong to the session's own user; then only the spawner can delete them.
            await self.spawner(row.spec.spawner).remove(self.directories.sessions / session_id)
            await asyncio.to_thread(self.directories.remove, session_id)
            await asyncio.to_thread(self.vault.remove, session_id)
            await self._recordings.records.remove_session(session_id)
            if row.spec.workspace.archive:
                await self.archives.remove(row.spec.workspace.archive)
            await self._table.remove(session_id)
        if row.spec.workspace.base:
            await self.sweep_bases()
        return row

    async def _end_sandbox(self, row: SessionRow) -> None:
        await self._disconnect(row.id)
        await self.spawner(row.spec.spawner).stop(row.id)
        await self._recordings.finish(row.id)
        await self._store.release(row.id, CLAIMS_WHILE_RUNNING)

    async def _disconnect(self, session_id: SessionId) -> None:
        if not self._watches.is_current(session_id):  # a task must not cancel and await itself
            await self._watches.cancel(session_id)
        await self._drop_client(session_id)
        await self._hub_sockets.close(session_id)
        await asyncio.to_thread(self.directories.remove_hub_socket, session_id)
        self._on_end(session_id)
        self.running.pop(session_id, None)

    async def _drop_client(self, session_id: SessionId) -> None:
        client = self._clients.pop(session_id, None)
        if client is not None:
            await client.aclose()
