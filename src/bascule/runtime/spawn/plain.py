"""Sandboxes without isolation: processes of the user who runs the hub."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import secrets
import signal
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from bascule.core.contracts import OnStage, Spawner
from bascule.core.errors import CannotIsolate, NoSuchSandbox, NotSupported, SandboxStartFailed
from bascule.core.sessions import RunningSandbox, SandboxPlan, SessionId, Usage
from bascule.sandbox.process_table import process_info, usage_of
from bascule.sandbox.session.launch import SandboxLaunch

from . import disk, trees
from .freezing import freeze, thaw
from .lock_file import acquire, is_locked
from .marked_processes import MARK, kill, kill_leader, marked_processes
from .readiness import wait_until_ready
from .vscode import SharedVSCode

RECORD: Final = "sandbox.lock"
"""File in a sandbox's `run_dir` that its first process locks. The file contains the PID of this
process."""
STOPPED: Final = "stopped.json"
"""File in `run_dir` during a pause. It lists the processes that were stopped before the pause."""
LOG: Final = "sandbox.log"
"""File in `state/` with the output of the action server."""

_LOCK_DESCRIPTOR: Final = 3
_KEEPER: Final = b"/_keeper_main.py"
"""Identifies the program that removes the files of a sandbox's shells in the host's `/tmp`."""
_TAIL_BYTES: Final = 64 << 10
"""Bytes at the end of a log that are searched for its last lines."""


@dataclass(frozen=True, slots=True)
class _Record:
    pid: int
    mark: str
    log: str


class PlainSpawner(Spawner):
    """Starts sandboxes as processes of the current user, for machines that can isolate nothing.

    A session can read all files and end all processes of that user, including other sessions and
    the hub. So `open` raises an error without `allow_unisolated`. Limits and egress are not
    enforced. The `run_dir` of every plan must be the session's id below `run_root`.
    """

    kind = "plain"

    def __init__(
        self,
        run_root: Path,
        *,
        allow_unisolated: bool = False,
        start_timeout: float = 60.0,
        vscode: SharedVSCode | None = None,
    ) -> None:
        """`vscode`: the VS Code of sessions; None: sessions have no VS Code."""
        self._run_root = run_root
        self._vscode = vscode
        self._is_allowed = allow_unisolated
        self._start_timeout = start_timeout
        self._locks: defaultdict[SessionId, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._undoing: set[asyncio.Future[None]] = set()

    async def open(self) -> None:
        if not self._is_allowed:
            raise CannotIsolate(
                "Plain sandboxes are not isolated from this machine or from each other; "
                "to use them anyway, pass --allow-unisolated"
            )
        await asyncio.to_thread(self._run_root.mkdir, mode=0o700, parents=True, exist_ok=True)

    async def aclose(self) -> None:
        """Wait until failed starts are undone. Running sandboxes continue."""
        await asyncio.gather(*self._undoing)

    async def start(self, plan: SandboxPlan, *, on_stage: OnStage | None = None) -> RunningSandbox:
        async with self._locks[plan.session_id]:
            record = await self._find_in_thread(plan.session_id)
            if record is None:
                record = await self._start_new(plan, on_stage or _ignore_stage)
            else:
                await self._until_it_answers(plan, record)
            return await asyncio.to_thread(_running, plan.session_id, record)

    async def running(self) -> Sequence[RunningSandbox]:
        return await asyncio.to_thread(self._all_running)

    async def pause(self, session_id: SessionId) -> None:
        async with self._locks[session_id]:
            record = await self._get_running(session_id)
            await asyncio.to_thread(
                freeze, lambda: marked_processes(record.mark), self._stopped_file(session_id)
            )

    async def resume(self, session_id: SessionId) -> None:
        async with self._locks[session_id]:
            record = await self._get_running(session_id)
            await asyncio.to_thread(
                thaw, lambda: marked_processes(record.mark), self._stopped_file(session_id)
            )

    async def stop(self, session_id: SessionId, *, grace: float = 10.0) -> None:
        async with self._locks[session_id]:
            record = await asyncio.to_thread(self._read, session_id)
            if record is None:
                return
            if await self._find_in_thread(session_id) is not None:
                await self._ask_to_end(record, grace)
            await asyncio.to_thread(self._clear, session_id, record)

    async def wait_for_unexpected_end(self, session_id: SessionId) -> str:
        record = await self._find_in_thread(session_id)
        if record is None:
            return "it is not running"
        return await _ended(record)

    async def usage(self, session_id: SessionId) -> Usage:
        record = await self._get_running(session_id)
        return await asyncio.to_thread(lambda: usage_of(marked_processes(record.mark).values()))

    async def log_tail(self, session_id: SessionId, *, lines: int = 100) -> str:
        record = await asyncio.to_thread(self._read, session_id)
        return "" if record is None else await asyncio.to_thread(_tail, Path(record.log), lines)

    async def disk(self, directory: Path) -> int:
        own = await disk.used_below(directory.parent, directory)
        return own + await disk.used_below(self._run_root, self._run_root / directory.name)

    async def remove(self, directory: Path) -> None:
        await asyncio.to_thread(trees.remove, directory)

    # Starting -----------------------------------------------------------------------------

    async def _start_new(self, plan: SandboxPlan, on_stage: OnStage) -> _Record:
        _ensure_can(plan)
        on_stage("starting the sandbox's process")
        spawning = asyncio.ensure_future(asyncio.to_thread(self._spawn, plan))
        try:
            record = await asyncio.shield(spawning)
            on_stage("waiting for its action server")
            await self._until_it_answers(plan, record)
        except BaseException:
            undoing = asyncio.ensure_future(self._undo(plan.session_id, spawning))
            self._undoing.add(undoing)
            undoing.add_done_callback(self._undoing.discard)
            await asyncio.shield(undoing)
            raise
        return record

    async def _undo(self, session_id: SessionId, spawning: asyncio.Future[_Record]) -> None:
        """Undo a start. The thread of the start cannot be cancelled. So wait for the thread, then
        end the process that it started."""
        with suppress(SandboxStartFailed):
            record = await spawning
            await asyncio.to_thread(self._clear, session_id, record)

    async def _until_it_answers(self, plan: SandboxPlan, record: _Record) -> None:
        await wait_until_ready(
            plan.run_dir, plan.key, ended=_ended(record), within=self._start_timeout
        )

    def _spawn(self, plan: SandboxPlan) -> _Record:
        workspace = plan.folder or plan.directory / "workspace"
        if not workspace.is_dir():
            raise SandboxStartFailed(f"{workspace} is not a directory on this machine")
        old = self._read(plan.session_id)
        if old is not None:
            self._clear(plan.session_id, old)
        try:
            return _spawn_held(plan, workspace, self._vscode)
        except OSError as error:
            message = f"The sandbox's process did not start: {error}"
            raise SandboxStartFailed(message) from error

    # Finding ------------------------------------------------------------------------------

    async def _get_running(self, session_id: SessionId) -> _Record:
        record = await self._find_in_thread(session_id)
        if record is None:
            raise NoSuchSandbox(f"No sandbox runs for the session {session_id}")
        return record

    async def _find_in_thread(self, session_id: SessionId) -> _Record | None:
        return await asyncio.to_thread(self._find, session_id)

    def _find(self, session_id: SessionId) -> _Record | None:
        return self._read(session_id) if is_locked(self._path(session_id)) else None

    def _all_running(self) -> Sequence[RunningSandbox]:
        found = []
        for each in sorted(self._run_root.iterdir()):
            session_id = SessionId(each.name)
            if (record := self._find(session_id)) is not None:
                found.append(_running(session_id, record))
        return found

    def _read(self, session_id: SessionId) -> _Record | None:
        try:
            text = self._path(session_id).read_text()
        except FileNotFoundError:
            return None
        return _Record(**json.loads(text)) if text else None

    def _path(self, session_id: SessionId) -> Path:
        return self._run_root / session_id / RECORD

    def _stopped_file(self, session_id: SessionId) -> Path:
        return self._run_root / session_id / STOPPED

    # Ending -------------------------------------------------------------------------------

    async def _ask_to_end(self, record: _Record, grace: float) -> None:
        with suppress(ProcessLookupError, TimeoutError):
            async with _watch_process(record.pid) as (handle, ended):
                signal.pidfd_send_signal(handle, signal.SIGTERM)
                await asyncio.to_thread(thaw, lambda: marked_processes(record.mark))
                async with asyncio.timeout(grace):
                    await ended.wait()

    def _clear(self, session_id: SessionId, record: _Record) -> None:
        kill_leader(record.mark, record.pid, cleaner=_KEEPER)
        kill(record.mark)
        _reap(record.pid)
        self._stopped_file(session_id).unlink(missing_ok=True)
        for each in self._path(session_id).parent.glob("*.sock"):
            each.unlink(missing_ok=True)


def _ignore_stage(_stage: str) -> None: ...


def _ensure_can(plan: SandboxPlan) -> None:
    """Raise an error for a plan that needs isolation: its own user or paths."""
    if plan.file_layout:
        raise NotSupported(
            f"The spawner plain cannot imitate the file layout of {plan.file_layout}; use the "
            "spawner local or docker",
            likeness=plan.file_layout,
        )
    if plan.user and plan.user != getpass.getuser():
        raise NotSupported(
            f"The spawner plain runs sessions as the hub's user {getpass.getuser()}, not as "
            f"{plan.user}; use the spawner local or docker",
            user=plan.user,
        )


def _running(session_id: SessionId, record: _Record) -> RunningSandbox:
    server = process_info(record.pid)
    is_paused = server is not None and server.is_stopped
    return RunningSandbox(session_id=session_id, is_paused=is_paused, uid=os.getuid())


def _spawn_held(plan: SandboxPlan, workspace: Path, vscode: SharedVSCode | None) -> _Record:
    for each in (plan.run_dir, plan.directory / "home", plan.directory / "state"):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = acquire(plan.run_dir / RECORD)
    if lock is None:
        raise SandboxStartFailed("Another hub is starting this sandbox")
    try:
        return _spawn(_launch(plan, workspace, vscode), plan, lock)
    finally:
        os.close(lock)


def _launch(plan: SandboxPlan, workspace: Path, vscode: SharedVSCode | None) -> SandboxLaunch:
    home, extensions = ("", "") if vscode is None else vscode.seen_at(str(vscode.home))
    return SandboxLaunch(
        key=plan.key,
        working_dir=str(workspace),
        run_dir=str(plan.run_dir),
        state_dir=str(plan.directory / "state"),
        environment=_environment(plan, mark=secrets.token_hex(16)),
        shells=plan.shells,
        browser=plan.browser,
        checkpoints=plan.checkpoints,
        window_asks=plan.window_asks,
        hub_socket=str(plan.hub_socket or ""),
        session_id=plan.session_id,
        vscode=home,
        vscode_extensions=extensions,
    )


def _spawn(launch: SandboxLaunch, plan: SandboxPlan, lock: int) -> _Record:
    """Start the process. Runs in a thread. The launch settings go through a pipe."""
    log = plan.directory / "state" / LOG
    environment = launch.environment
    read, write = os.pipe2(os.O_CLOEXEC)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        command = (sys.executable, "-m", "bascule.runtime.spawn._plain_main")
        pid = os.posix_spawn(
            sys.executable,
            [*command, str(_LOCK_DESCRIPTOR)],
            {**environment, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, read, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
                (os.POSIX_SPAWN_DUP2, lock, _LOCK_DESCRIPTOR),
            ],
            setsid=True,
        )
        record = _Record(pid, environment[MARK], str(log))
        os.ftruncate(lock, 0)
        os.pwrite(lock, json.dumps(asdict(record)).encode(), 0)
        os.close(read)
        read = -1
        with suppress(BrokenPipeError):  # the process has ended; its log has the reason
            os.write(write, launch.to_json())
    finally:
        for each in (read, write, output):
            if each >= 0:
                os.close(each)
    return record


def _environment(plan: SandboxPlan, *, mark: str) -> Mapping[str, str]:
    own = {name: os.environ[name] for name in ("PATH", "LANG", "TZ", "USER") if name in os.environ}
    home = str(plan.directory / "home")
    return {"PATH": os.defpath, **own, "HOME": home, **plan.environment, MARK: mark}


async def _ended(record: _Record) -> str:
    try:
        async with _watch_process(record.pid) as (_, ended):
            await ended.wait()
    except ProcessLookupError:
        pass
    return await asyncio.to_thread(_end_reason, record)


@asynccontextmanager
async def _watch_process(pid: int) -> AsyncIterator[tuple[int, asyncio.Event]]:
    """A pidfd, and an event that is set when the process ends. Raises `ProcessLookupError` if it
    has ended already."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    handle = os.pidfd_open(pid)
    loop.add_reader(handle, ended.set)
    try:
        yield handle, ended
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def _end_reason(record: _Record) -> str:
    status = _reap(record.pid)
    reason = "its process ended"
    if status is not None:
        reason += f" by signal {-status}" if status < 0 else f" with exit status {status}"
    return "\n".join(filter(None, [reason, _tail(Path(record.log), 20)]))


def _reap(pid: int) -> int | None:
    """The exit status, if the process is our child and not yet reaped."""
    try:
        waited, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return os.waitstatus_to_exitcode(status) if waited else None


def _tail(log: Path, lines: int) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
