"""The sandboxes of this machine: started, watched, paused, ended, and cleared up after."""

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
from bascule.runtime.spawn.process_table import ProcessInfo, all_processes, with_relatives

from . import nosymfollow, processes
from .directories import Directories
from .logs import Logs
from .machine import Machine, look
from .preparation import Prepared, Preparing, ensure_id
from .processes import Process
from .records import Leases, Record, Records
from .settings import LocalSettings
from .zygote import Birth, Zygote

logger = logging.getLogger(__name__)

OnStage = Callable[[str], None]

_CAUSE = 20
"""Lines of what a sandbox said that go into the message when it did not start."""


@dataclass(slots=True)
class Life:
    """A sandbox that runs, and what watches it."""

    record: Record
    server: Process
    first: Process | None
    """The one whose end is the end of all in its namespace."""
    watching: asyncio.Task[str]


class Sandboxes(Closable):
    """Everything the warden can do. Closing leaves all sandboxes as they are."""

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        self._zygote = Zygote()
        self._records = Records(settings.state_dir / "sandboxes")
        self._leases = Leases(settings.leases_dir, settings.first_uid, settings.uid_count)
        self._directories = Directories(settings, self._leases.__contains__)
        self._logs = Logs(settings.state_dir / "logs")
        self._machine: Machine | None = None
        self._preparing: Preparing | None = None
        self._turns: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._lives: dict[SessionId, Life] = {}
        self._watchers: set[asyncio.Task[str]] = set()
        self._presence = -1

    async def open(self) -> None:
        """Look at the machine, find what runs, clear up what does not any more."""
        self._machine = await asyncio.to_thread(self._make_ready)
        self._preparing = await asyncio.to_thread(
            Preparing,
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
    def records(self) -> Sequence[Record]:
        return [life.record for life in self._lives.values()]

    async def start(self, plan: SandboxPlan, on_stage: OnStage) -> RunningSandbox:
        async with self._turns[plan.session_id]:
            await self._adopt(plan.session_id)
            life = self._lives.get(plan.session_id)
            if life is not None and life.server.is_over:
                await asyncio.wait({life.watching})
            if plan.session_id not in self._lives:
                on_stage("preparing directories and limits")
                prepared = await self._prepare(plan)
                try:
                    on_stage("starting the action server")
                    await self._fork(prepared)
                finally:
                    prepared.close()
                    if plan.session_id not in self._lives:
                        self._return(prepared.record)
            return self._shown(self._lives[plan.session_id])

    async def running(self) -> Sequence[RunningSandbox]:
        await self.find()
        await asyncio.to_thread(self._logs.trim)
        if over := {life.watching for life in self._lives.values() if life.server.is_over}:
            await asyncio.wait(over)
        return [self._shown(life) for life in self._lives.values()]

    async def pause(self, session_id: SessionId) -> None:
        life = self._life(session_id)
        if (cgroups := self.machine.cgroups) is not None:
            cgroups.freeze(session_id, on=True)
            return
        await asyncio.to_thread(freeze, lambda: self._members(life), self._note(session_id))

    async def resume(self, session_id: SessionId) -> None:
        await self._thaw(self._life(session_id), self._note(session_id))

    async def stop(self, session_id: SessionId, grace: float) -> None:
        """Nothing is left of it but its files; also when it had ended already."""
        async with self._turns[session_id]:
            await self._adopt(session_id)
            life = self._lives.get(session_id)
            if life is None:
                return
            life.server.signal(signal.SIGTERM)
            await self._thaw(life)
            done, _ = await asyncio.wait({life.watching}, timeout=grace)
            if not done:
                level = logging.WARNING if grace else logging.DEBUG  # none was to be given
                logger.log(level, "the sandbox of %s did not stop and is killed", session_id)
                self._kill(life)
                await asyncio.wait({life.watching})

    async def ended(self, session_id: SessionId) -> str:
        await self._adopt(session_id)
        life = self._lives.get(session_id)
        if life is None:
            return "It is not running"
        return await asyncio.shield(life.watching)

    async def usage(self, session_id: SessionId) -> Usage:
        life = self._life(session_id)
        if self.machine.cgroups is not None:
            return self.machine.cgroups.usage(session_id)
        return await asyncio.to_thread(lambda: processes.usage_of(iter(self._members(life))))

    async def last_words(self, session_id: SessionId, lines: int) -> str:
        ensure_id(session_id)
        return await asyncio.to_thread(self._logs.tail, session_id, lines)

    async def disk(self, directory: Path) -> int:
        """All that it has written: its directory, its sockets' and what its server said."""
        life = self._lives.get(SessionId(directory.name))
        uid = None if life is None else life.record.uid
        used = await self._directories.used(directory, uid)
        return used + await asyncio.to_thread(self._logs.used, directory.name)

    async def remove(self, directory: Path) -> None:
        """A session's own directory with all in it, whoever owns what; no sandbox may run there."""
        await asyncio.to_thread(self._directories.remove, directory)
        self._logs.forget(directory.name)

    async def find(self) -> None:
        """Watch every sandbox that runs, whoever started it; clear up after those that do not."""
        known = set(self._records.ids())
        if self.machine.cgroups is not None:
            known |= {SessionId(name) for name in self.machine.cgroups.names()}
        if not (unknown := known - set(self._lives)):
            return
        firsts = await asyncio.to_thread(processes.firsts)
        for session_id in unknown:
            turn = self._turns[session_id]
            if turn.locked():
                continue
            async with turn:
                await self._adopt(session_id, firsts)
                if session_id not in self._lives:
                    await self._clear_or_say(session_id)

    async def aclose(self) -> None:
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        for life in self._lives.values():
            _close(life)
        await self._zygote.aclose()
        if self._machine is not None and not self._lives:
            await asyncio.to_thread(self._leave_nothing)
        if self._presence >= 0:
            os.close(self._presence)
            self._presence = -1

    # Starting --------------------------------------------------------------------------

    async def _prepare(self, plan: SandboxPlan) -> Prepared:
        assert self._preparing is not None
        work = asyncio.ensure_future(asyncio.to_thread(self._preparing.prepare, plan))
        try:
            prepared = await asyncio.shield(work)
        except BaseException as error:
            # What a thread has begun it finishes, also when nobody waits for it any more.
            await asyncio.wait({work})
            is_done = isinstance(error, asyncio.CancelledError) and not work.exception()
            if is_done and (late := work.result()) is not None:
                late.close()
            await self._clear(plan.session_id)
            if isinstance(error, NoSuchPath):
                raise SandboxStartFailed(f"The sandbox did not start: {error}") from error
            raise
        if prepared is None:
            raise SandboxStartFailed(
                f"Somebody else is starting the sandbox of {plan.session_id} already"
            )
        return prepared

    async def _fork(self, prepared: Prepared) -> None:
        session_id = prepared.record.session_id
        birth, theirs = await Birth.expected()
        known: dict[str, int] = {}
        try:
            with theirs:
                given = {**prepared.given, "result": theirs.fileno()}
                await self._zygote.order(prepared.order, given)
            async with asyncio.timeout(self._settings.start_timeout):
                while not {"server", "ready"} <= known.keys():
                    if (news := await birth.news()) is None:
                        raise ProcessLookupError
                    known |= news
            first = known.get("first", 0)
            self._watch(self._completed(prepared, first), known["server"], first)
        except (TimeoutError, ProcessLookupError) as error:
            said = await self.last_words(session_id, _CAUSE)
            how = f"did not answer in {self._settings.start_timeout:g} seconds"
            if isinstance(error, ProcessLookupError):
                how = "ended before it answered"
            raise SandboxStartFailed(f"The sandbox {how}: {said}") from error
        finally:
            if session_id not in self._lives:
                await asyncio.shield(self._undo(prepared, birth, known))
            birth.close()

    def _completed(self, prepared: Prepared, first: int) -> Record:
        record = replace(prepared.record, namespace=processes.namespace_of(first))
        self._records.write(record, prepared.given["lock"])
        return record

    async def _undo(self, prepared: Prepared, birth: Birth, known: Mapping[str, int]) -> None:
        """End what was forked, from the outermost in; then nothing holds what is further in."""
        birth.abort()
        news: Mapping[str, int] | None = known
        while news is not None:
            for name in ("fork", "server"):
                if name in news:
                    await _end(news[name])
            news = await birth.news()
        # The lock is ours still, by the descriptor that the server would have inherited.
        await self._clear_places(prepared.record)
        self._records.forget(prepared.record.session_id, os.dup(prepared.given["lock"]))

    # Watching --------------------------------------------------------------------------

    async def _adopt(self, session_id: SessionId, firsts: Mapping[int, int] | None = None) -> None:
        """Watch it if it runs. `firsts` is looked up once by whoever adopts many."""
        ensure_id(session_id)
        if session_id in self._lives:
            return
        held = await asyncio.to_thread(self._records.held, session_id)
        if held is not None and held.pid is not None:
            if firsts is None:
                firsts = await asyncio.to_thread(processes.firsts)
            with contextlib.suppress(ProcessLookupError):  # it has ended between the two
                self._watch(held.record, held.pid, firsts.get(held.record.namespace, 0))

    def _watch(self, record: Record, pid: int, first: int) -> None:
        server = Process(pid)
        watching = asyncio.create_task(self._until_ended(record.session_id))
        self._watchers.add(watching)
        watching.add_done_callback(self._watchers.discard)
        life = Life(record, server, Process(first) if first else None, watching)
        self._lives[record.session_id] = life

    async def _until_ended(self, session_id: SessionId) -> str:
        life = self._lives[session_id]
        status = await self._zygote.status(life.server)
        if life.first is not None:
            await life.first.ended()
        how = self._how(session_id, status)
        await self._clear_or_say(session_id)
        self._lives.pop(session_id, None)
        _close(life)
        return how

    def _how(self, session_id: SessionId, status: int | None) -> str:
        said = "Its action server ended"
        if status is not None and status < 0:
            said = f"Its action server was ended by signal {signal.Signals(-status).name}"
        elif status:
            said = f"Its action server ended with status {status}"
        cgroups = self.machine.cgroups
        if status != 0 and cgroups is not None and cgroups.kills_for_memory(session_id):
            said += "; the session had reached its memory limit"
        return said

    # Ending ----------------------------------------------------------------------------

    async def _thaw(self, life: Life, note: Path | None = None) -> None:
        if (cgroups := self.machine.cgroups) is not None:
            if cgroups.is_frozen(life.record.session_id):
                cgroups.freeze(life.record.session_id, on=False)
        else:
            await asyncio.to_thread(thaw, lambda: self._members(life), note)

    def _kill(self, life: Life) -> None:
        life.server.signal(signal.SIGKILL)
        if life.first is not None:
            life.first.signal(signal.SIGKILL)
        if self.machine.cgroups is not None:
            self.machine.cgroups.kill(life.record.session_id)

    async def _clear_or_say(self, session_id: SessionId) -> None:
        """The record of what could not be cleared stays, and it is tried again at the next look."""
        try:
            await self._clear(session_id)
        except (BasculeError, OSError) as error:
            logger.error("what the sandbox of %s left could not be removed: %s", session_id, error)

    async def _clear(self, session_id: SessionId) -> None:
        """Remove what a sandbox that has ended left: processes, groups, sockets, its record."""
        stale = await asyncio.to_thread(self._records.stale, session_id)
        if stale is None:
            if await asyncio.to_thread(self._records.held, session_id) is None:
                await self._clear_group(session_id)
            return
        descriptor, record = stale
        try:
            if record is not None:
                await self._clear_places(record)
            await self._clear_group(session_id)
        except BaseException:
            os.close(descriptor)
            raise
        self._note(session_id).unlink(missing_ok=True)
        self._records.forget(session_id, descriptor)
        if record is not None and self.machine.is_root:
            self._return(record)

    def _return(self, record: Record) -> None:
        for uid in record.uids:
            self._leases.tidy(uid)

    async def _clear_places(self, record: Record) -> None:
        await self._clear_group(record.session_id)
        run_dir = Path(record.run_dir)
        await asyncio.to_thread(self._directories.remove_run_dir, run_dir, record.uid)

    async def _clear_group(self, session_id: SessionId) -> None:
        cgroups = self.machine.cgroups
        if cgroups is None or session_id not in cgroups.names():
            return
        if cgroups.is_frozen(session_id):
            cgroups.freeze(session_id, on=False)
        while left := cgroups.processes(session_id):
            cgroups.kill(session_id)
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    process = Process(pid)
                    await process.ended()
                    process.close()
        cgroups.remove(session_id)

    def _leave_nothing(self) -> None:
        """Unless another warden has the same directories."""
        try:
            fcntl.flock(self._presence, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if self.machine.cgroups is not None:
            self.machine.cgroups.remove_all()
        if self.machine.is_root:
            nosymfollow.allow_links(self._settings.run_dir)

    # Asking ----------------------------------------------------------------------------

    def _life(self, session_id: SessionId) -> Life:
        try:
            return self._lives[session_id]
        except KeyError:
            raise NoSuchSandbox(f"No sandbox runs for {session_id}") from None

    def _shown(self, life: Life) -> RunningSandbox:
        session_id = life.record.session_id
        if self.machine.cgroups is not None:
            is_paused = self.machine.cgroups.is_frozen(session_id)
        else:
            is_paused = processes.is_stopped(life.server.pid)
        return RunningSandbox(session_id=session_id, is_paused=is_paused, uid=life.record.uid)

    def _members(self, life: Life) -> Mapping[int, ProcessInfo]:
        """Of a machine without cgroups. Blocks."""
        found = {life.server.pid}
        if life.record.is_isolated:
            # The server keeps to itself which namespace it is in, from all but root.
            found.update(processes.members(life.record.namespace))
        return with_relatives(found, all_processes())

    def _note(self, session_id: SessionId) -> Path:
        """While it is paused: which of its processes were stopped before that."""
        return self._settings.state_dir / "stopped" / session_id

    def _make_ready(self) -> Machine:
        settings = self._settings
        machine = look(settings)
        settings.state_dir.mkdir(parents=True, exist_ok=True)
        self._presence = os.open(
            settings.state_dir / "wardens", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        fcntl.flock(self._presence, fcntl.LOCK_SH)
        self._logs.open()
        (settings.state_dir / "stopped").mkdir(mode=0o700, exist_ok=True)
        if settings.hub_uid is None:  # else they are the hub's to make, where root has no business
            for directory in (settings.sessions_dir, settings.run_dir):
                directory.mkdir(parents=True, exist_ok=True)
        self._directories.ensure_usable()
        if machine.is_root:
            nosymfollow.forbid_links(settings.run_dir)
        return machine


async def _end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        process = Process(pid)
        process.signal(signal.SIGKILL)
        await process.ended()
        process.close()


def _close(life: Life) -> None:
    life.server.close()
    if life.first is not None:
        life.first.close()
