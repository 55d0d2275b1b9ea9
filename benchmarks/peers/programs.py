"""Programs with pipes: asyncio's own, Bascule's in process, and Bascule's over HTTP."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from statistics import median
from time import perf_counter
from typing import Any

import bascule
from bascule.core.programs import ProgramHost
from bascule.runtime import LocalRuntime
from benchmarks.peers.serve import respond

_BLOCK = bytes(1 << 20)
_READ_BYTES = 1 << 16


class ProgramSubject(ABC):
    async def hello(self) -> dict[str, Any]:
        return {"pid": os.getpid(), "versions": {"bascule": bascule.__version__}}

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def stop(self) -> None: ...

    async def short(self, count: int) -> dict[str, float]:
        """Seconds of one `true`, from its start to its exit code."""
        taken = []
        for _ in range(count):
            before = perf_counter()
            assert await self.run_to_end(["true"]) == 0
            taken.append(perf_counter() - before)
        return {"start": median(taken)}

    async def copied(self, blocks: int) -> dict[str, float]:
        """Seconds in which blocks of 1 MiB pass through `cat`, and MiB by which memory grew."""
        memory, before = _peak(), perf_counter()
        received = 0
        async for data in self.copy(blocks):
            received += len(data)
        assert received == blocks * len(_BLOCK)
        return {"copy": perf_counter() - before, "growth": (_peak() - memory) / 1024}

    @abstractmethod
    async def run_to_end(self, argv: Sequence[str]) -> int: ...

    @abstractmethod
    def copy(self, blocks: int) -> AsyncIterator[bytes]: ...


class AsyncioPrograms(ProgramSubject):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def run_to_end(self, argv: Sequence[str]) -> int:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        return await process.wait()

    async def copy(self, blocks: int) -> AsyncIterator[bytes]:
        process = await asyncio.create_subprocess_exec(
            "cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        async def feed() -> None:
            for _ in range(blocks):
                stdin.write(_BLOCK)
                await stdin.drain()
            stdin.close()

        feeding = asyncio.create_task(feed())
        while data := await stdout.read(_READ_BYTES):
            yield data
        await feeding
        await process.wait()


class BasculePrograms(ProgramSubject):
    def __init__(self, *, process: bool) -> None:
        self._runtime = LocalRuntime(process=process)
        self._host: ProgramHost = self._runtime

    async def start(self) -> None:
        await self._runtime.connect()
        await self.run_to_end(["true"])  # starts the keeper

    async def stop(self) -> None:
        await self._runtime.aclose()

    async def run_to_end(self, argv: Sequence[str]) -> int:
        return await (await self._host.start_program(argv)).wait()

    async def copy(self, blocks: int) -> AsyncIterator[bytes]:
        program = await self._host.start_program(["cat"])

        async def feed() -> None:
            for _ in range(blocks):
                await program.write(_BLOCK)
            await program.close_stdin()

        feeding = asyncio.create_task(feed())
        async for piece in program.output():
            assert not piece.dropped
            yield piece.data
        await feeding


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _subject(kind: str) -> ProgramSubject:
    if kind == "asyncio":
        return AsyncioPrograms()
    return BasculePrograms(process=kind == "http")


if __name__ == "__main__":
    respond(_subject(sys.argv[1]))
