"""The sandboxes of this machine: starts, watches, pauses and ends them, and cleans up."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bascule.core.contracts import Closable
from bascule.core.errors import BasculeError, NoSuchPath, NoSuchSandbox, SandboxStartFailed
from bascule.core.sessions import RunningSandbox, SandboxPlan, SessionId, Usage
from bascule.runtime.spawn.freezing import freeze, thaw
from bascule.sandbox.process_table import (
    ProcessInfo,
    all_processes,
    pid_namespace,
    process_info,
    usage_of,
    with_relatives,
)

from . import nosymfollow, processes
from .directories import WardenDirectories
from .logs import SandboxLogs
from .machine import Machine, look
from .preparation import PreparedSandbox, SandboxPreparation, ensure_id
from .processes import ProcessHandle
from .records import SandboxRecord, SandboxRecords, UidLeases
from .settings import LocalSettings
from .zygote import PendingSandbox, Zygote

logger = logging.getLogger(__name__)

OnStage = Callable[[str], None]

_LOG_LINES = 20
"""Lines of a sandbox's log in the error message of a failed start."""


@dataclass(slots=True)
class WatchedSandbox:
    """A running sandbox and the task that watches it."""

    record: SandboxRecord
    server: ProcessHandle
    first: ProcessHandle | None
    """The first process of the sandbox's PID namespace. Its end ends all other processes there."""
    watching: asyncio.Task[str]


class Sandboxes(Closable):
    """All operations of the warden. Closing this object leaves the sandboxes running."""

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        self._zygote = Zygote()
        self._records = SandboxRecords(settings.state_dir / "sandboxes")
        self._leases = UidLeases(settings.leases_dir, settings.first_uid, settings.uid_count)
        self._directories = WardenDirectories(settings, self._leases.__contains__)
        self._logs = SandboxLogs(settings.state_dir / "logs")
        self._machine: Machine | None = None
        self._preparation: SandboxPreparation | None = None
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._running: dict[SessionId, WatchedSandbox] = {}
        self._watchers: set[asyncio.Task[str]] = set()
        self._presence_lock = -1

    async def open(self) -> None:
        """Check the machine, find running sandboxes and clean up after ended ones."""
        self._machine = await asyncio.to_thread(self._prepare_machine)
        self._preparation = await asyncio.to_thread(
            SandboxPreparation,
            self._settings,
            self._machine,
            self._records,
            self._leases,
            self._directories,
            self._logs.directory,
        )
        await self._zygote.warm()
        await self.find()

    @property
    def machine(self) -> Machine:
        assert self._machine is not None
        return self._machine

    @property
    def records(self) -> Sequence[SandboxRecord]:
        return [sandbox.record for sandbox in self._running.values()]

    async def start(self, plan: SandboxPlan, on_stage: OnStage) -> RunningSandbox:
        async with self._locks[plan.session_id]:
            await self._adopt(plan.session_id)
            sandbox = self._running.get(plan.session_id)
            if sandbox is not None and sandbox.server.is_over:
                await asyncio.wait({sandbox.watching})
            if plan.session_id not in self._running:
                on_stage("preparing directories and limits")
                prepared = await self._prepare(plan)
                try:
                    on_stage("starting the action server")
                    await self._fork(prepared)
                finally:
                    prepared.close()
                    if plan.session_id not in self._running:
                        self._return_uids(prepared.record)
            return self._as_running(self._running[plan.session_id])

    async def running(self) -> Sequence[RunningSandbox]:
        await self.find()
        await asyncio.to_thread(self._logs.trim)
        if ended_watchers := {
            sandbox.watching for sandbox in self._running.values() if sandbox.server.is_over
        }:
            await asyncio.wait(ended_watchers)
        return [self._as_running(sandbox) for sandbox in self._running.values()]

    async def pause(self, session_id: SessionId) -> None:
        sandbox = self._get_running(session_id)
        if (cgroups := self.machine.cgroups) is not None:
            cgroups.freeze(session_id, on=True)
            return
        await asyncio.to_thread(
            freeze, lambda: self._members(sandbox), self._stopped_file(session_id)
        )

    async def resume(self, session_id: SessionId) -> None:
        await self._thaw(self._get_running(session_id), self._stopped_file(session_id))

    async def stop(self, session_id: SessionId, grace: float) -> None:
        """End all processes of the sandbox, if any; its files stay."""
        async with self._locks[session_id]:
            await self._adopt(session_id)
            sandbox = self._running.get(session_id)
            if sandbox is None:
                return
            sandbox.server.signal(signal.SIGTERM)
            await self._thaw(sandbox)
            done, _ = await asyncio.wait({sandbox.watching}, timeout=grace)
            if not done:
                level = logging.WARNING if grace else logging.DEBUG  # expected without grace
                logger.log(level, "the sandbox of %s did not stop and is killed", session_id)
                self._kill(sandbox)
                await asyncio.wait({sandbox.watching})

    async def wait_for_unexpected_end(self, session_id: SessionId) -> str:
        await self._adopt(session_id)
        sandbox = self._running.get(session_id)
        if sandbox is None:
            return "It is not running"
        return await asyncio.shield(sandbox.watching)

    async def usage(self, session_id: SessionId) -> Usage:
        sandbox = self._get_running(session_id)
        if self.machine.cgroups is not None:
            return self.machine.cgroups.usage(session_id)
        return await asyncio.to_thread(lambda: usage_of(self._members(sandbox).values()))

    async def log_tail(self, session_id: SessionId, lines: int) -> str:
        ensure_id(session_id)
        return await asyncio.to_thread(self._logs.tail, session_id, lines)

    async def disk(self, directory: Path) -> int:
        """Bytes of all that the session has written: its directory, its sockets and its log."""
        sandbox = self._running.get(SessionId(directory.name))
        uid = None if sandbox is None else sandbox.record.uid
        used = await self._directories.used(directory, uid)
        return used + await asyncio.to_thread(self._logs.used, directory.name)

    async def remove(self, directory: Path) -> None:
        """Remove a session's directory, even if other users own its files. No sandbox may run
        there."""
        await asyncio.to_thread(self._directories.remove, directory)
        self._logs.forget(directory.name)

    async def find(self) -> None:
        """Watch every running sandbox, also of other wardens, and clean up after ended ones."""
        known = set(self._records.ids())
        if self.machine.cgroups is not None:
            known |= {SessionId(name) for name in self.machine.cgroups.names()}
        if not (unknown := known - set(self._running)):
            return
        first_processes = await asyncio.to_thread(processes.first_processes)
        for session_id in unknown:
            lock = self._locks[session_id]
            if lock.locked():
                continue
            async with lock:
                await self._adopt(session_id, first_processes)
                if session_id not in self._running:
                    await self._try_clean_up(session_id)

    async def aclose(self) -> None:
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        for sandbox in self._running.values():
            _close(sandbox)
        await self._zygote.aclose()
        if self._machine is not None and not self._running:
            await asyncio.to_thread(self._undo_machine_changes)
        if self._presence_lock >= 0:
            os.close(self._presence_lock)
            self._presence_lock = -1

    # Starting --------------------------------------------------------------------------

    async def _prepare(self, plan: SandboxPlan) -> PreparedSandbox:
        assert self._preparation is not None
        work = asyncio.ensure_future(asyncio.to_thread(self._preparation.prepare, plan))
        try:
            prepared = await asyncio.shield(work)
        except BaseException as error:
            # A thread cannot be cancelled: wait until it has finished.
            await asyncio.wait({work})
            has_result = isinstance(error, asyncio.CancelledError) and not work.exception()
            if has_result and (unused := work.result()) is not None:
                unused.close()
            await self._clear(plan.session_id)
            if isinstance(error, NoSuchPath):
                raise SandboxStartFailed(f"The sandbox did not start: {error}") from error
            raise
        if prepared is None:
            raise SandboxStartFailed(
                f"Another process is starting the sandbox of {plan.session_id} already"
            )
        return prepared

    async def _fork(self, prepared: PreparedSandbox) -> None:
        session_id = prepared.record.session_id
        pending, sandbox_end = await PendingSandbox.open()
        known: dict[str, int] = {}
        try:
            with sandbox_end:
                descriptors = {**prepared.descriptors, "result": sandbox_end.fileno()}
                await self._zygote.order(prepared.order, descriptors)
            async with asyncio.timeout(self._settings.start_timeout):
                while not {"server", "ready"} <= known.keys():
                    if (step := await pending.next_step()) is None:
                        raise ProcessLookupError
                    known |= step
            first = known.get("first", 0)
            self._watch(self._complete_record(prepared, first), known["server"], first)
        except (TimeoutError, ProcessLookupError) as error:
            log = await self.log_tail(session_id, _LOG_LINES)
            reason = f"did not answer in {self._settings.start_timeout:g} seconds"
            if isinstance(error, ProcessLookupError):
                reason = "ended before it answered"
            raise SandboxStartFailed(f"The sandbox {reason}: {log}") from error
        finally:
            if session_id not in self._running:
                await asyncio.shield(self._undo(prepared, pending, known))
            pending.close()

    def _complete_record(self, prepared: PreparedSandbox, first: int) -> SandboxRecord:
        record = replace(prepared.record, namespace=pid_namespace(first))
        self._records.write(record, prepared.descriptors["lock"])
        return record

    async def _undo(
        self, prepared: PreparedSandbox, pending: PendingSandbox, known: Mapping[str, int]
    ) -> None:
        """End the forked processes, outermost first, so that nothing keeps the inner processes
        alive."""
        pending.abort()
        step: Mapping[str, int] | None = known
        while step is not None:
            for name in ("fork", "server"):
                if name in step:
                    await _end(step[name])
            step = await pending.next_step()
        # This process still holds the lock through the descriptor that the server would have
        # inherited.
        await self._clear_run_dir(prepared.record)
        self._records.forget(prepared.record.session_id, os.dup(prepared.descriptors["lock"]))

    # Watching --------------------------------------------------------------------------

    async def _adopt(
        self, session_id: SessionId, first_processes: Mapping[int, int] | None = None
    ) -> None:
        """Watch the sandbox if it runs.

        Callers that adopt many sandboxes pass `first_processes`, so that it is read only once.
        """
        ensure_id(session_id)
        if session_id in self._running:
            return
        locked = await asyncio.to_thread(self._records.held, session_id)
        if locked is not None and locked.pid is not None:
            if first_processes is None:
                first_processes = await asyncio.to_thread(processes.first_processes)
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                self._watch(
                    locked.record, locked.pid, first_processes.get(locked.record.namespace, 0)
                )

    def _watch(self, record: SandboxRecord, pid: int, first: int) -> None:
        server = ProcessHandle(pid)
        watching = asyncio.create_task(self._until_ended(record.session_id))
        self._watchers.add(watching)
        watching.add_done_callback(self._watchers.discard)
        sandbox = WatchedSandbox(record, server, ProcessHandle(first) if first else None, watching)
        self._running[record.session_id] = sandbox

    async def _until_ended(self, session_id: SessionId) -> str:
        sandbox = self._running[session_id]
        status = await self._zygote.status(sandbox.server)
        if sandbox.first is not None:
            await sandbox.first.ended()
        reason = self._end_reason(session_id, status)
        await self._try_clean_up(session_id)
        self._running.pop(session_id, None)
        _close(sandbox)
        return reason

    def _end_reason(self, session_id: SessionId, status: int | None) -> str:
        text = "Its action server ended"
        if status is not None and status < 0:
            text = f"Its action server was ended by signal {signal.Signals(-status).name}"
        elif status:
            text = f"Its action server ended with status {status}"
        cgroups = self.machine.cgroups
        if status != 0 and cgroups is not None and cgroups.kills_for_memory(session_id):
            text += "; the session had reached its memory limit"
        return text

    # Ending ----------------------------------------------------------------------------

    async def _thaw(self, sandbox: WatchedSandbox, note: Path | None = None) -> None:
        if (cgroups := self.machine.cgroups) is not None:
            if cgroups.is_frozen(sandbox.record.session_id):
                cgroups.freeze(sandbox.record.session_id, on=False)
        else:
            await asyncio.to_thread(thaw, lambda: self._members(sandbox), note)

    def _kill(self, sandbox: WatchedSandbox) -> None:
        sandbox.server.signal(signal.SIGKILL)
        if sandbox.first is not None:
            sandbox.first.signal(signal.SIGKILL)
        if self.machine.cgroups is not None:
            self.machine.cgroups.kill(sandbox.record.session_id)

    async def _try_clean_up(self, session_id: SessionId) -> None:
        """Clean up. On failure the record stays, and the next check tries again."""
        try:
            await self._clear(session_id)
        except (BasculeError, OSError) as error:
            logger.error(
                "files of the ended sandbox of %s could not be removed: %s", session_id, error
            )

    async def _clear(self, session_id: SessionId) -> None:
        """Remove the processes, cgroups, sockets and record of an ended sandbox."""
        stale = await asyncio.to_thread(self._records.stale, session_id)
        if stale is None:
            if await asyncio.to_thread(self._records.held, session_id) is None:
                await self._clear_group(session_id)
            return
        descriptor, record = stale
        try:
            if record is not None:
                await self._clear_run_dir(record)
            await self._clear_group(session_id)
        except BaseException:
            os.close(descriptor)
            raise
        self._stopped_file(session_id).unlink(missing_ok=True)
        self._records.forget(session_id, descriptor)
        if record is not None and self.machine.is_root:
            self._return_uids(record)

    def _return_uids(self, record: SandboxRecord) -> None:
        for uid in record.uids:
            self._leases.tidy(uid)

    async def _clear_run_dir(self, record: SandboxRecord) -> None:
        await self._clear_group(record.session_id)
        run_dir = Path(record.run_dir)
        await asyncio.to_thread(self._directories.remove_run_dir, run_dir, record.uid)

    async def _clear_group(self, session_id: SessionId) -> None:
        cgroups = self.machine.cgroups
        if cgroups is None or session_id not in cgroups.names():
            return
        if cgroups.is_frozen(session_id):
            cgroups.freeze(session_id, on=False)
        while pids := cgroups.processes(session_id):
            cgroups.kill(session_id)
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    process = ProcessHandle(pid)
                    await process.ended()
                    process.close()
        cgroups.remove(session_id)

    def _undo_machine_changes(self) -> None:
        """Undo the warden's changes to the machine (cgroups, mounts), unless another warden uses
        them."""
        try:
            fcntl.flock(self._presence_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if self.machine.cgroups is not None:
            self.machine.cgroups.remove_all()
        if self.machine.is_root:
            nosymfollow.allow_links(self._settings.run_dir)

    # Queries ---------------------------------------------------------------------------

    def _get_running(self, session_id: SessionId) -> WatchedSandbox:
        try:
            return self._running[session_id]
        except KeyError:
            raise NoSuchSandbox(f"No sandbox runs for {session_id}") from None

    def _as_running(self, sandbox: WatchedSandbox) -> RunningSandbox:
        session_id = sandbox.record.session_id
        if self.machine.cgroups is not None:
            is_paused = self.machine.cgroups.is_frozen(session_id)
        else:
            server = process_info(sandbox.server.pid)
            is_paused = server is not None and server.is_stopped
        return RunningSandbox(session_id=session_id, is_paused=is_paused, uid=sandbox.record.uid)

    def _members(self, sandbox: WatchedSandbox) -> Mapping[int, ProcessInfo]:
        """The sandbox's processes, on a machine without cgroups. Blocks the calling thread."""
        found = {sandbox.server.pid}
        if sandbox.record.is_isolated:
            # The server is missing here: it is not dumpable, so only root can read its namespace.
            found.update(processes.members(sandbox.record.namespace))
        return with_relatives(found, all_processes())

    def _stopped_file(self, session_id: SessionId) -> Path:
        """The file that lists processes that were already stopped before the pause."""
        return self._settings.state_dir / "stopped" / session_id

    def _prepare_machine(self) -> Machine:
        settings = self._settings
        machine = look(settings)
        settings.state_dir.mkdir(parents=True, exist_ok=True)
        self._presence_lock = os.open(
            settings.state_dir / "wardens", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        fcntl.flock(self._presence_lock, fcntl.LOCK_SH)
        self._logs.open()
        (settings.state_dir / "stopped").mkdir(mode=0o700, exist_ok=True)
        # With another hub user, the hub creates the directories, without root's rights.
        if settings.hub_uid is None:
            for directory in (settings.sessions_dir, settings.run_dir):
                directory.mkdir(parents=True, exist_ok=True)
        self._directories.ensure_usable()
        if machine.is_root:
            nosymfollow.forbid_links(settings.run_dir)
        return machine


async def _end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        process = ProcessHandle(pid)
        process.signal(signal.SIGKILL)
        await process.ended()
        process.close()


def _close(sandbox: WatchedSandbox) -> None:
    sandbox.server.close()
    if sandbox.first is not None:
        sandbox.first.close()
