"""The contract of programs with pipes: started from an argv, without shell, with stdin, stdout and
stderr apart."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

ProgramStream = Literal["stdout", "stderr"]
"""A program on a terminal prints everything to `stdout`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalSize:
    """The size of a program's terminal."""

    columns: int = 80
    rows: int = 24


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """A piece of a program's output."""

    stream: ProgramStream
    offset: int
    """Position of `data` in its stream, in bytes from the start of the program."""
    data: bytes
    """Empty at the end of a reader that missed the last output of the stream."""
    dropped: int = 0
    """Bytes of this stream directly before `data` that were dropped before they could be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramStatus:
    """A program as it is now."""

    id: str
    argv: tuple[str, ...]
    """Shortened if its words have more than 128 Ki characters together."""
    cwd: str
    user: str = ""
    """The account, if it is not the sandbox's own."""
    pid: int
    has_terminal: bool = False
    exit_code: int | None = None
    """None while the program runs; the negative number of the signal that ended it."""
    stdin: int = 0
    """Bytes of stdin that the program's pipe or terminal has accepted."""
    stdout: int = 0
    """Bytes printed so far."""
    stderr: int = 0
    started_by: str = ""
    """Id of the hub's token that started the program; empty without a hub."""

    @property
    def is_running(self) -> bool:
        return self.exit_code is None


class Program(ABC):
    """A program that was started by `ProgramHost.start_program`, perhaps by another client.

    The program runs until it exits, `kill` or the end of its sandbox. Dropping this object changes
    nothing. All methods may be called concurrently.
    """

    @property
    @abstractmethod
    def id(self) -> str: ...

    @abstractmethod
    async def status(self) -> ProgramStatus:
        """The program's state. Raises `NoSuchProgram` once the sandbox has forgotten it."""

    @abstractmethod
    async def write(self, data: bytes) -> None:
        """Write to stdin, and return once the pipe or terminal has accepted all of `data`.

        Concurrent calls write one after the other. A cancelled call may have written a part. Raises
        `ProgramInputClosed` if the program has ended or closed its stdin.
        """

    @abstractmethod
    async def close_stdin(self) -> None:
        """Close stdin, so that the program reads the end of the file. On a terminal, type its
        end-of-file key, Ctrl-D. Closing twice is allowed."""

    @abstractmethod
    async def signal(self, name: str) -> None:
        """Send a signal, such as `SIGINT`, to the program and to the children in its process group.
        No effect if the program has ended. Raises `InvalidRequest` for an unknown name."""

    @abstractmethod
    async def resize(self, size: TerminalSize) -> None:
        """Change the size of the terminal. Raises `InvalidRequest` if it has none."""

    @abstractmethod
    def output(self, *, stdout: int = 0, stderr: int = 0) -> AsyncGenerator[ProgramOutput, None]:
        """The output in the order of its arrival, from a position in each stream on, until the
        program has exited and all its output is read.

        The program waits, as with any full pipe, while a reader of `output` is slow. Without a
        reader it never waits: only its newest output is kept. `dropped` tells what a reader missed.
        A reader that takes nothing for half a minute is no longer waited for.
        """

    @abstractmethod
    async def wait(self) -> int:
        """Wait until the program has exited; returns its exit code. Programs that it left in the
        background may still run, and write to its pipes."""

    @abstractmethod
    async def kill(self) -> int:
        """End the program and its children: SIGTERM, then SIGKILL. Returns its exit code."""


class ProgramHost(ABC):
    """Starts programs with pipes: a runtime, or a sandbox."""

    @abstractmethod
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
    ) -> Program:
        """Start a program, without a shell.

        `argv[0]` is a path, or a name in `PATH`. `env` is added to the environment of the sandbox's
        shells. `cwd` is relative to the working directory. `user`: name of the account; only a
        sandbox of root that has no account of its own can choose one. With `terminal`, the program
        runs on a pseudoterminal instead of pipes. With `waits_for_reader`, the program waits, when
        much output is unread, for the first reader of its output, so that this reader misses
        nothing; but not longer than half a minute.

        `secret_env`: more variables, whose values no record shows. The output of such a program is
        not recorded, because it may contain them. `unread_limit`: seconds without a reader of
        `output` after which the program is ended, so that it ends with its client. With
        `joins_stderr`, stderr goes to the same pipe as stdout, so that their order is kept.

        Rules for commands apply to the program as to the same words in a shell. Cancelling may
        leave the program running. Raises an error if the program does not start.
        """

    @abstractmethod
    async def find_program(self, program_id: str) -> Program:
        """The program with that id, which may have ended. Raises `NoSuchProgram`."""

    @abstractmethod
    async def list_programs(self) -> Sequence[ProgramStatus]:
        """The programs that run, and those that ended last, in the order of their starts."""


def missed_at_end(
    ends: Mapping[ProgramStream, int], seen: Mapping[ProgramStream, int]
) -> list[ProgramOutput]:
    """What a reader that got the bytes `seen` missed at the end of a stream."""
    return [
        ProgramOutput(stream, end, b"", dropped=end - seen[stream])
        for stream, end in ends.items()
        if end > seen[stream]
    ]
