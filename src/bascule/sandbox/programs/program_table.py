"""The programs of a sandbox: starts them, finds them again, and ends them with the sandbox."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from bascule.core.actions import CmdRun
from bascule.core.contracts import Closable, OnProgress, OutputProgress
from bascule.core.errors import (
    AccessDenied,
    BasculeError,
    InvalidRequest,
    NoSuchProgram,
    PermissionRefused,
    QuotaExceeded,
    SandboxDied,
    SandboxStartFailed,
)
from bascule.core.identity import EventId, now
from bascule.core.observations import CmdMetadata, CmdOutput, Observation
from bascule.core.programs import ProgramHost, ProgramStatus, TerminalSize
from bascule.sandbox.shell.keeper import Keeper, ShellAccount
from bascule.sandbox.shell.output import CommandOutput
from bascule.sandbox.shell.settings import ShellSettings, find_account, shell_environment

from .piped_program import STALL_TIMEOUT, PipedProgram
from .program_request import ProgramRequest

if TYPE_CHECKING:
    from bascule.core.actions import Action
    from bascule.sandbox.command_gate import CommandGate

MAX_RUNNING: Final = 512
_MAX_LARGE_PIPES: Final = 32
"""Maximum number of programs with large pipes; further ones get pipes of the default size. The
kernel limits the memory of all pipes of a user."""
MAX_ENDED: Final = 64
"""Maximum number of ended programs that are kept, with their newest output."""
_MAX_REVOKED: Final = 512
"""Maximum number of revoked tokens that are kept. The hub refuses their later requests; only
starts that have begun need to be found."""
_SANDBOX_MARK: Final = "BASCULE_SANDBOX"
"""Variable by which a spawner without isolation finds the processes of a session. A program cannot
replace it."""


class ProgramWatcher(Protocol):
    """Is notified of every program, in the same way as of every command of a shell."""

    def began(self, action: Action, on_progress: OnProgress | None) -> OnProgress: ...

    def ended(self, observation: Observation, seconds: float, checkpoint: int | None) -> None: ...

    def failed(self, action_id: EventId, seconds: float, why: str) -> None: ...


@dataclass(slots=True, eq=False)
class _Start:
    """A program that starts now."""

    started_by: str
    is_refused: bool = False


class ProgramTable(ProgramHost, Closable):
    """All programs of one sandbox, by id. Closing ends every program and its children."""

    def __init__(
        self,
        settings: ShellSettings,
        *,
        keeper: Keeper,
        gate: Callable[[], CommandGate | None],
        watcher: Callable[[], ProgramWatcher | None],
    ) -> None:
        self._settings = settings
        self._keeper = keeper
        self._gate = gate
        self._watcher = watcher
        self._programs: dict[str, PipedProgram] = {}
        self._ended: deque[str] = deque()
        """Ids of the complete programs, in the order of their completion."""
        self._starting: set[_Start] = set()
        self._revoked: dict[str, None] = {}
        """Ids of revoked tokens, whose programs may still be starting; the newest are last."""
        self._is_closed = False
        self.stall_timeout = STALL_TIMEOUT

    async def start_program(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        user: str = "",
        terminal: TerminalSize | None = None,
        secret_env: Mapping[str, str] | None = None,
        unread_limit: float | None = None,
        joins_stderr: bool = False,
        waits_for_reader: bool = False,
    ) -> PipedProgram:
        request = ProgramRequest(
            argv=argv if isinstance(argv, str) else tuple(argv),
            env=env or {},
            cwd=cwd,
            user=user,
            terminal=terminal,
            secret_env=secret_env or {},
            unread_limit=unread_limit,
            joins_stderr=joins_stderr,
            waits_for_reader=waits_for_reader,
        )
        return await self.start(request)

    async def start(self, request: ProgramRequest, *, started_by: str = "") -> PipedProgram:
        """Start a program. `started_by`: id of the token that starts it, for `end_started_by`."""
        if self._is_closed:
            raise SandboxDied("The sandbox was closed")
        if (running := self._running()) >= MAX_RUNNING:
            raise QuotaExceeded(
                f"{running} programs run in this sandbox, the maximum; end one first",
                limit=MAX_RUNNING,
            )
        start = _Start(started_by)
        self._starting.add(start)
        try:
            program = await self._start(request, started_by)
        finally:
            self._starting.discard(start)
        if self._is_closed:
            raise SandboxDied("The sandbox was closed while the program started")
        if start.is_refused or started_by in self._revoked:
            await program.kill()
            raise AccessDenied("The token that starts this program was revoked or lost its access")
        return program

    async def find_program(self, program_id: str) -> PipedProgram:
        return self.get(program_id)

    async def list_programs(self) -> Sequence[ProgramStatus]:
        return [each.describe() for each in self._programs.values()]

    def get(self, program_id: str) -> PipedProgram:
        found = self._programs.get(program_id)
        if found is None:
            raise NoSuchProgram(
                f"There is no program {program_id!r}; the newest {MAX_ENDED} that ended are known"
            )
        return found

    async def end_started_by(self, started_by: str, *, is_revoked: bool = True) -> int:
        """End all programs that this token started, and those that it is starting. Returns the
        number of those that ran.

        `is_revoked`: refuse later starts too.
        """
        if is_revoked:
            self._revoked.pop(started_by, None)
            self._revoked[started_by] = None
            while len(self._revoked) > _MAX_REVOKED:
                del self._revoked[next(iter(self._revoked))]
        for each in self._starting:
            each.is_refused = each.is_refused or each.started_by == started_by
        found = [each for each in self._programs.values() if each.started_by == started_by]
        running = [each for each in found if not each.has_ended]
        await asyncio.gather(*(each.kill() for each in running))
        return len(running)

    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        running = [each for each in self._programs.values() if not each.has_ended]
        await asyncio.gather(*(each.kill() for each in running))
        for each in self._programs.values():
            each.close()

    # ----------------------------------------------------------------------------------------

    def _running(self) -> int:
        return len(self._starting) + sum(not each.has_ended for each in self._programs.values())

    async def _start(self, request: ProgramRequest, started_by: str) -> PipedProgram:
        place = await asyncio.to_thread(self._place, request)
        action = CmdRun(
            request.as_command(user=place.user), cwd=place.cwd, is_static=True, blocking=True
        )
        record = _ProgramRecord(self._watcher(), action)
        program_id = secrets.token_hex(8)
        program = PipedProgram(
            program_id,
            request,
            keeper=self._keeper,
            user=place.user,
            started_by=started_by,
            stall_timeout=self.stall_timeout,
            has_large_pipes=self._running() <= _MAX_LARGE_PIPES,
        )
        if not request.secret_env:  # a program may print its secrets, which no record may contain
            program.on_output = record.on_output
        program.on_complete = lambda status: self._on_complete(program, record, status)
        try:
            if (gate := self._gate()) is not None:
                await gate.admit_program(action, place.cwd)
            await program.start(
                place.executable, env=place.env, cwd=place.cwd, account=place.account
            )
        except SandboxStartFailed as error:
            record.failed(error.message)
            raise _start_error(error, request) from error
        except BaseException as error:
            record.failed(str(error) or "The start was cancelled")
            raise
        self._programs[program_id] = program
        return program

    def _place(self, request: ProgramRequest) -> _Place:
        """The directory, environment and user of the program. Blocks the calling thread."""
        own = self._settings.account
        account = self._account(request.user)
        settings = replace(self._settings, account=account)
        directory = request.directory(str(settings.working_dir))
        base = shell_environment(settings)
        mark = {name: base[name] for name in (_SANDBOX_MARK,) if name in base}
        env = {**base, **request.env, **request.secret_env, **mark, "PWD": directory}
        return _Place(
            cwd=directory,
            env=env,
            account=account,
            user=account.name if account is not None and account != own else "",
            executable=request.executable(directory, env.get("PATH", "")),
        )

    def _account(self, user: str) -> ShellAccount | None:
        own = self._settings.account
        if not user or (own is not None and user == own.name):
            return own
        if own is not None:
            raise AccessDenied(
                f"Programs of this sandbox run as {own.name!r}, and cannot run as {user!r}; leave "
                "`user` out",
                user=user,
            )
        try:
            return find_account(user, None)
        except BasculeError as error:
            raise InvalidRequest(f"`user`: {error.message}", user=user) from error

    def _on_complete(self, program: PipedProgram, record: _ProgramRecord, status: int) -> None:
        record.ended(status, cwd=program.describe().cwd)
        self._ended.append(program.id)
        while len(self._ended) > MAX_ENDED:
            self._programs.pop(self._ended.popleft(), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The directory, environment and user with which a program starts."""

    cwd: str
    env: Mapping[str, str]
    account: ShellAccount | None
    user: str
    """Name of the account, if the request chose it."""
    executable: str


class _ProgramRecord:
    """Records a program in the timeline, as if its argv were a command in a shell."""

    def __init__(self, watcher: ProgramWatcher | None, action: CmdRun) -> None:
        self._watcher = watcher
        self._action = action
        self._began = time.perf_counter()
        self._offset = 0
        self._output = CommandOutput(_RECORDED)
        self._on_progress = None if watcher is None else watcher.began(action, None)

    def on_output(self, _stream: str, data: bytes) -> None:
        if self._on_progress is not None:
            self._output.add(data)
            self._on_progress(OutputProgress("", self._offset, data))
            self._offset += len(data)

    def ended(self, status: int, *, cwd: str) -> None:
        if self._watcher is None:
            return
        taken = self._output.take(final=True)
        content = taken.head
        if taken.left_out:
            content += f"\n[{taken.left_out:,} bytes are left out here.]\n{taken.tail}"
        seconds = time.perf_counter() - self._began
        observation = CmdOutput(
            content=content,
            command=self._action.command,
            cause=self._action.id,
            timestamp=now(),
            metadata=CmdMetadata(
                exit_code=status,
                working_dir=cwd,
                output_bytes=taken.size,
                left_out_bytes=taken.left_out,
                duration=seconds,
            ),
        )
        self._watcher.ended(observation, seconds, None)

    def failed(self, why: str) -> None:
        if self._watcher is not None:
            self._watcher.failed(self._action.id, time.perf_counter() - self._began, why)


_RECORDED: Final = 30_000
"""Maximum characters of a program's output in its observation."""


def _start_error(error: SandboxStartFailed, request: ProgramRequest) -> BasculeError:
    """The reason why a program did not start, as an error about the request."""
    name, where = request.argv[0], error.detail.get("where")
    reason = error.message.partition(": ")[2]
    if where in ("exec", "cwd") and "Permission denied" in reason:
        return PermissionRefused(f"the program {name!r} may not be run: {reason}", path=name)
    if where in ("exec", "cwd"):
        return InvalidRequest(f"the program {name!r} cannot be run: {reason}")
    return error
