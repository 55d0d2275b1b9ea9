"""A running program of this sandbox: its pipes or its terminal, its output and its end."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import struct
import termios
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final

from bascule.core.errors import InvalidRequest, SandboxStartFailed
from bascule.core.programs import (
    Program,
    ProgramOutput,
    ProgramStatus,
    ProgramStream,
    TerminalSize,
)
from bascule.sandbox.shell.keeper import Keeper, ShellAccount

from .output_log import OutputReader, ProgramLog
from .pipes import READ_BYTES, PipeReader, PipeWriter, enlarge
from .program_request import ProgramRequest, ensure_size

LOG_BYTES: Final = 1 << 20
"""Memory for the output of one program."""
STALL_TIMEOUT: Final = 30.0
"""Seconds without reading after which a program no longer waits for a reader."""
_END_OF_FILE_KEY: Final = b"\x04"

OnOutput = Callable[[ProgramStream, bytes], None]
"""Called with each piece of output, before readers get it."""


class PipedProgram(Program):
    """A program that a keeper has started. `ProgramTable` starts and ends it."""

    def __init__(
        self,
        program_id: str,
        request: ProgramRequest,
        *,
        keeper: Keeper,
        user: str = "",
        started_by: str = "",
        stall_timeout: float = STALL_TIMEOUT,
        has_large_pipes: bool = True,
    ) -> None:
        self._id = program_id
        self._request = request
        self._shown_argv = request.shown_argv()
        self._keeper = keeper
        self._user = user
        self._started_by = started_by
        self._stall_timeout = stall_timeout
        self._has_large_pipes = has_large_pipes
        self._loop = asyncio.get_running_loop()
        self._log = ProgramLog(
            LOG_BYTES, on_read=self._resume, waits_for_reader=request.waits_for_reader
        )
        self._readers: list[PipeReader] = []
        self._stdin: PipeWriter | None = None
        self._cwd = ""
        self._stalled: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None
        self._readers_open = 0
        self._is_complete = False
        self._exit: asyncio.Future[int] = self._loop.create_future()
        self.pid = 0
        self.on_output: OnOutput | None = None
        self.on_complete: Callable[[int], None] | None = None
        """Called once with the exit code, after all output of the program was passed on."""

    @property
    def id(self) -> str:
        return self._id

    @property
    def has_ended(self) -> bool:
        return self._exit.done()

    @property
    def started_by(self) -> str:
        return self._started_by

    @property
    def stdin(self) -> PipeWriter:
        assert self._stdin is not None, "the program was not started"
        return self._stdin

    async def start(
        self, executable: str, *, env: Mapping[str, str], cwd: str, account: ShellAccount | None
    ) -> None:
        """Start the program. Raises `SandboxStartFailed` if it cannot be executed."""
        self._cwd = cwd
        argv = (executable, *self._request.argv[1:])
        theirs: list[int] = []
        try:
            self._open_descriptors(theirs)
            if self._request.terminal is not None:
                self.pid = await self._keeper.spawn(
                    argv,
                    env={**env, "TERM": env.get("TERM", "xterm-256color")},
                    cwd=cwd,
                    terminal=theirs[0],
                    channel=theirs[0],
                    account=account,
                    on_exit=self._exited,
                    adopts_orphans=False,
                )
            else:
                self.pid = await self._keeper.launch(
                    argv,
                    env=env,
                    cwd=cwd,
                    stdin=theirs[0],
                    stdout=theirs[1],
                    stderr=theirs[-1],
                    account=account,
                    on_exit=self._exited,
                    adopts_orphans=False,
                )
        except BaseException:
            self.close()
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        for reader in self._readers:
            reader.read()
        self._watch_readers()

    # As a program -------------------------------------------------------------------------

    async def status(self) -> ProgramStatus:
        return self.describe()

    def describe(self) -> ProgramStatus:
        return ProgramStatus(
            id=self._id,
            argv=self._shown_argv,
            cwd=self._cwd,
            user=self._user,
            pid=self.pid,
            has_terminal=self._request.terminal is not None,
            exit_code=self._exit.result() if self._exit.done() else None,
            stdin=self.stdin.accepted,
            stdout=self._log.ends["stdout"],
            stderr=self._log.ends["stderr"],
            started_by=self._started_by,
        )

    async def write(self, data: bytes) -> None:
        await self.stdin.write(data)

    async def close_stdin(self) -> None:
        if self._request.terminal is None:
            self.stdin.close()
        elif not self.has_ended:
            await self.stdin.write(_END_OF_FILE_KEY)

    async def signal(self, name: str) -> None:
        number = _signal_number(name)
        if not self.has_ended:
            self._keeper.signal(self.pid, number)

    async def resize(self, size: TerminalSize) -> None:
        if self._request.terminal is None:
            raise InvalidRequest(f"The program {self._id} has pipes, and no terminal to resize")
        ensure_size(size)
        if self.stdin.fd >= 0:
            _set_size(self.stdin.fd, size)

    def open_reader(self, *, stdout: int = 0, stderr: int = 0) -> OutputReader:
        """A reader of the output. The caller closes it."""
        self._readers_open += 1
        self._watch_readers()
        return self._log.read(stdout=stdout, stderr=stderr, on_close=self._on_reader_closed)

    async def output(
        self, *, stdout: int = 0, stderr: int = 0
    ) -> AsyncGenerator[ProgramOutput, None]:
        reader = self.open_reader(stdout=stdout, stderr=stderr)
        try:
            async for piece in reader.items():
                assert piece is not None  # there is no heartbeat
                yield piece
            for missed in reader.missed_at_end():
                yield missed
        finally:
            reader.close()

    async def wait(self) -> int:
        return await asyncio.shield(self._exit)

    async def kill(self) -> int:
        if not self.has_ended:  # the kernel may have given the PID to another program
            await self._keeper.end(self.pid)
        return await self.wait()

    # ----------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close this side's descriptors. The keeper ends the program."""
        if self._unread is not None:
            self._unread.cancel()
        if self._ending is not None:
            self._ending.cancel()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        for reader in self._readers:
            reader.close()
        if self._stdin is not None:
            self._stdin.close()
        self._log.finish()

    def _open_descriptors(self, theirs: list[int]) -> None:
        """Open the pipes or the terminal. Adds the program's ends to `theirs`, also if it fails.

        The program's ends of pipes are stdin, stdout and stderr.
        """
        try:
            if self._request.terminal is not None:
                self._open_terminal(self._request.terminal, theirs)
            else:
                self._open_pipes(theirs)
        except OSError as error:  # for example because no descriptor is free
            raise SandboxStartFailed(f"the program did not start: {error}") from error

    def _open_pipes(self, theirs: list[int]) -> None:
        end, ours = os.pipe2(os.O_CLOEXEC)
        theirs.append(end)
        if self._has_large_pipes:
            enlarge(ours)
        self._stdin = PipeWriter(ours)
        streams: tuple[ProgramStream, ...] = ("stdout", "stderr")
        for stream in streams[:1] if self._request.joins_stderr else streams:
            ours, end = os.pipe2(os.O_CLOEXEC)
            theirs.append(end)
            if stream == "stdout" and self._has_large_pipes:
                enlarge(ours)
            self._readers.append(self._reader(ours, stream))

    def _open_terminal(self, size: TerminalSize, theirs: list[int]) -> None:
        ours, end = os.openpty()
        theirs.append(end)
        self._readers.append(self._reader(ours, "stdout"))
        _set_size(ours, size)
        self._stdin = PipeWriter(os.dup(ours))

    def _reader(self, fd: int, stream: ProgramStream) -> PipeReader:
        def pass_on(data: bytes) -> None:
            if self.on_output is not None:
                self.on_output(stream, data)
            self._log.add(stream, data)

        return PipeReader(fd, may_read=self._may_read, on_data=pass_on)

    def _may_read(self) -> bool:
        if self._is_complete or self._log.has_room(READ_BYTES):
            return True
        if self._stalled is None:
            self._log.begin_waiting()
            self._stalled = self._loop.call_later(self._stall_timeout, self._on_stall)
        return False

    def _on_stall(self) -> None:
        """Stop waiting for readers that took nothing since the output had no room."""
        self._stalled = None
        self._log.stop_waiting()
        self._read_on()

    def _resume(self) -> None:
        """Called when readers may have made room."""
        if self._stalled is not None and self._log.has_room(READ_BYTES):
            self._stalled.cancel()
            self._stalled = None
            self._read_on()

    def _on_reader_closed(self) -> None:
        self._readers_open -= 1
        self._watch_readers()

    def _watch_readers(self) -> None:
        """End a program with an `unread_limit` that has had no reader for so long."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        limit = self._request.unread_limit
        if limit is not None and not self._readers_open and not self.has_ended:
            self._unread = self._loop.call_later(limit, self._on_unread)

    def _on_unread(self) -> None:
        self._ending = self._loop.create_task(self._keeper.end(self.pid))

    def _read_on(self) -> None:
        for reader in self._readers:
            reader.read()
        self._complete()

    def _exited(self, status: int) -> None:
        if not self._exit.done():
            self._exit.set_result(status)
            self.stdin.close()
            self._watch_readers()  # nothing to end any longer
            self._complete()

    def _complete(self) -> None:
        """Finish the output once everything that the program printed was read.

        Children in the background may keep the pipes open. These pipes are still read, because a
        closed pipe would end the children.
        """
        if self._is_complete or not self._exit.done():
            return
        drained = [reader.drain() for reader in self._readers]
        if not all(drained):
            return  # `_resume` calls again
        self._is_complete = True
        self._log.finish()
        if self.on_complete is not None:
            self.on_complete(self._exit.result())


def _set_size(terminal: int, size: TerminalSize) -> None:
    packed = struct.pack("HHHH", size.rows, size.columns, 0, 0)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, packed)


def _signal_number(name: object) -> int:
    if isinstance(name, str):
        full = name if name.startswith("SIG") else f"SIG{name}"
        if full in signal.Signals.__members__:
            return signal.Signals[full]
    raise InvalidRequest(f"There is no signal {name!r}; use a name such as SIGINT or SIGTERM")
