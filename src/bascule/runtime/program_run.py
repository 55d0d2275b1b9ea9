"""Runs a program with pipes to its end, with limits on its time and its output."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final

from bascule.core.errors import BasculeError, ProgramInputClosed
from bascule.core.programs import Program, ProgramHost, ProgramStream

OUTPUT_LIMIT: Final = 10 << 20
"""Default of the maximum bytes that are kept of each stream."""
_BLOCK_BYTES: Final = 1 << 20
_SIGNAL_STATUS: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRun:
    """A program that has ended."""

    exit_code: int
    """As `Program.wait` returns it: negative after a signal."""
    stdout: bytes
    stderr: bytes
    left_out: int = 0
    """Bytes of stdout and stderr together that were over the limit."""
    timed_out: bool = False
    """Whether the program was ended because its time was over."""

    @property
    def status(self) -> int:
        """The exit code as shells report it: 128 and the number of the signal after a signal."""
        return self.exit_code if self.exit_code >= 0 else _SIGNAL_STATUS - self.exit_code


async def run_program(
    host: ProgramHost,
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    cwd: str = "",
    user: str = "",
    timeout: float | None = None,
    output_limit: int = OUTPUT_LIMIT,
) -> ProgramRun:
    """Start a program, write `stdin` to it, and wait for its end.

    After `timeout` seconds the program and its children are ended, and the run has the output until
    then. Cancelling ends them too. `output_limit`: bytes that are kept of the beginning of each
    stream. Raises an error if the program does not start.
    """
    program = await host.start_program(argv, env=env, cwd=cwd, user=user, waits_for_reader=True)
    output = _Output(output_limit)
    following = asyncio.ensure_future(_follow(program, stdin, output))
    try:
        ended, _ = await asyncio.wait({following}, timeout=timeout)
        if not ended:
            await program.kill()
        exit_code = await following
    except BaseException:
        following.cancel()
        with suppress(BasculeError):  # the first error is the cause
            await asyncio.shield(program.kill())
        raise
    return ProgramRun(
        exit_code=exit_code,
        stdout=bytes(output.kept["stdout"]),
        stderr=bytes(output.kept["stderr"]),
        left_out=output.left_out,
        timed_out=not ended,
    )


class _Output:
    """The beginning of each stream."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.kept: dict[ProgramStream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._lost: dict[ProgramStream, int] = {"stdout": 0, "stderr": 0}

    @property
    def left_out(self) -> int:
        return sum(self._lost.values())

    def add(self, stream: ProgramStream, data: bytes, *, dropped: int) -> None:
        kept = self.kept[stream]
        # After a gap nothing is kept: the text before and after it would look like one.
        room = 0 if self._lost[stream] or dropped else self._limit - len(kept)
        kept += data[:room]
        self._lost[stream] += dropped + max(len(data) - room, 0)


async def _follow(program: Program, stdin: bytes, output: _Output) -> int:
    """Write stdin and read the output until the program has ended; returns its exit code."""
    try:
        async with asyncio.TaskGroup() as tasks:
            feeding = tasks.create_task(_feed(program, stdin))
            # Wait from the start on: a sandbox forgets ended programs when many others have ended.
            ending = tasks.create_task(program.wait())
            async with aclosing(program.output()) as pieces:
                async for piece in pieces:
                    output.add(piece.stream, piece.data, dropped=piece.dropped)
            await ending
            feeding.cancel()
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from failed
    return ending.result()


async def _feed(program: Program, stdin: bytes) -> None:
    left = memoryview(stdin)
    with suppress(ProgramInputClosed):  # a program need not read all of its stdin
        while left:
            await program.write(bytes(left[:_BLOCK_BYTES]))
            left = left[_BLOCK_BYTES:]
        await program.close_stdin()
