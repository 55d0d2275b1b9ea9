"""The measurements, written once over what a subject can do. Clocks run here, beside it."""

from __future__ import annotations

import math
import os
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Generic

from benchmarks.peers.pages import one_page
from benchmarks.peers.subject import (
    COMMAND_TIMEOUT,
    Cells,
    Files,
    Pages,
    Refused,
    Server,
    Shell,
    Subject,
)
from benchmarks.peers.trials import FileTrial, Trials


class Measurements(Generic[Shell]):
    """The questions a worker answers. Each public method is one; times are in seconds."""

    def __init__(self, subject: Subject[Shell]) -> None:
        self._subject = subject
        self._fleet: list[Shell] = []
        self._enduring: tuple[Shell, Trials] | None = None

    async def start(self) -> None:
        await self._subject.start()

    async def stop(self) -> None:
        await self.fleet_close()
        await self.endure_end()
        await self._subject.stop()

    async def hello(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "python": sys.version.split()[0],
            "versions": self._subject.versions(),
            "server_pid": self._subject.server_pid,
        }

    async def startup(self, count: int) -> dict[str, Any]:
        """Shells opened one after the other: until ready, and until a first command is done."""
        ready, first = [], []
        for _ in range(count):
            began = perf_counter()
            shell = await self._subject.open()
            ready.append(perf_counter() - began)
            await self._subject.run(shell, "true", COMMAND_TIMEOUT)
            first.append(perf_counter() - began)
            await self._subject.close(shell)
        is_lazy = self._subject.starts_with_first_command
        return {
            "ready": None if is_lazy else statistics.median(ready),
            "cold": await self._subject.start_cold(),
            "first_command": statistics.median(first),
            "first_command_p95": percentile(first, 95),
        }

    async def browsing(self, count: int) -> dict[str, Any]:
        """A small page on loopback: first with no browser yet, then again and again."""
        browser = self._subject
        if not isinstance(browser, Pages):
            raise Refused("it has no browser")
        with one_page() as (url, text):
            began = perf_counter()
            wrong = int(text not in await browser.browse(url))
            first = perf_counter() - began
            nexts, looks = [], []
            for _ in range(count):
                began = perf_counter()
                wrong += text not in await browser.browse(url)
                nexts.append(perf_counter() - began)
                began = perf_counter()
                wrong += text not in await browser.interact("noop(0)")
                looks.append(perf_counter() - began)
        await browser.end_browser()
        return {
            "first": first,
            "next": statistics.median(nexts),
            "next_p95": percentile(nexts, 95),
            "interactive": statistics.median(looks),
            "wrong": wrong,
        }

    async def latency(self, count: int, warmup: int) -> dict[str, Any]:
        """`true`, again and again in one shell, each timed from the call to its answer."""
        run = self._subject.run
        times: list[float] = []
        wrong = 0
        shell = await self._subject.open()
        for _ in range(warmup):
            await run(shell, "true", COMMAND_TIMEOUT)
        for _ in range(count):
            began = perf_counter()
            answer = await run(shell, "true", COMMAND_TIMEOUT)
            times.append(perf_counter() - began)
            wrong += not answer.is_silent_success
        await self._subject.close(shell)
        return {
            "median": statistics.median(times),
            "p95": percentile(times, 95),
            "commands": count,
            "wrong": wrong,
        }

    async def cells(self, count: int, warmup: int) -> dict[str, Any]:
        """The first cell of a new kernel, then small ones, each timed from the call to its answer.

        `first` has the kernel's start in it.
        """
        if not isinstance(self._subject, Cells):
            raise Refused("has no cells")
        await self._subject.end_kernel()
        first = await _timed_cell(self._subject, "number = 0")
        for _ in range(warmup):
            await _timed_cell(self._subject, "0")
        times: list[float] = []
        wrong = 0
        for number in range(1, count + 1):
            began = perf_counter()
            shown = await self._subject.run_cell("number += 1; number")
            times.append(perf_counter() - began)
            wrong += shown != str(number)
        return {
            "first": first,
            "median": statistics.median(times),
            "p95": percentile(times, 95),
            "wrong": wrong,
        }

    async def output(self, command: str, piece: str, repeat: int, limit: float) -> dict[str, Any]:
        """Time a command that prints `piece` `repeat` times ('' counts from 1), and check it."""
        expected = piece * repeat if piece else "".join(f"{n}\n" for n in range(1, repeat + 1))
        shell = await self._subject.open()
        await self._subject.run(shell, "true", COMMAND_TIMEOUT)
        began = perf_counter()
        try:
            answer = await self._subject.run(shell, command, limit)
        except Refused as refused:
            return {"seconds": None, "complete": False, "got": 0, "note": str(refused)}
        finally:
            seconds = perf_counter() - began
            await self._subject.close(shell)
        got = answer.text
        # Peers strip the ends and turn line ends into CRLF: that alone is not held against them.
        exact = got == expected
        complete = exact or got.replace("\r\n", "\n").strip() == expected.strip()
        return {
            "seconds": seconds,
            "complete": complete,
            "exact": exact,
            "got": len(got),
            "expected": len(expected),
            "note": "" if answer.status == 0 else f"status {answer.status}",
        }

    async def fleet_open(self, count: int) -> dict[str, Any]:
        began = perf_counter()
        self._fleet = await self._subject.open_all(count)
        return {"seconds": perf_counter() - began}

    async def fleet_run(self, each: int) -> dict[str, Any]:
        began = perf_counter()
        wrong = await self._subject.together(self._fleet, "true", each)
        return {"seconds": perf_counter() - began, "wrong": wrong}

    async def fleet_close(self) -> dict[str, Any]:
        while self._fleet:
            await self._subject.close(self._fleet.pop())
        return {}

    async def files(self, size: int, repeats: int) -> dict[str, Any]:
        """Read, write and edit a file of `size` bytes; each result is checked on disk."""
        if not isinstance(self._subject, Files):
            raise Refused("has no files")
        with tempfile.TemporaryDirectory(prefix="bench-files-", dir=os.getcwd()) as directory:
            trial = FileTrial(self._subject, Path(directory, "file.txt"), size)
            return {
                "read": await _median_or_reason(trial.read, repeats),
                "write": await _median_or_reason(trial.write, repeats),
                "edit": await _median_or_reason(trial.edit, repeats),
            }

    async def server_start(self) -> dict[str, Any]:
        if not isinstance(self._subject, Server):
            raise Refused("has no server")
        pid, seconds = await self._subject.start_server()
        return {"pid": pid, "seconds": seconds}

    async def server_stop(self) -> dict[str, Any]:
        if isinstance(self._subject, Server):
            await self._subject.stop_server()
        return {}

    async def endure(self, count: int, seed: int) -> dict[str, Any]:
        """Run the next `count` commands of a long series in one shell, checking every answer."""
        if self._enduring is None:
            self._enduring = await self._subject.open(), Trials(seed)
        shell, trials = self._enduring
        began = perf_counter()
        wrong: list[str] = []
        for trial in trials.take(count):
            answer = await self._subject.run(shell, trial.command, COMMAND_TIMEOUT)
            if (answer.text, answer.status) != (trial.output, trial.status):
                wrong.append(f"{trial} was answered by {answer}")
        seconds = perf_counter() - began
        return {"seconds": seconds, "commands": count, "wrong": len(wrong), "examples": wrong[:5]}

    async def endure_end(self) -> dict[str, Any]:
        if self._enduring is not None:
            await self._subject.close(self._enduring[0])
            self._enduring = None
        return {}


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


async def _timed_cell(subject: Cells, code: str) -> float:
    began = perf_counter()
    await subject.run_cell(code)
    return perf_counter() - began


async def _median_or_reason(measure: Callable[[], Awaitable[float]], repeats: int) -> float | str:
    try:
        return statistics.median([await measure() for _ in range(repeats)])
    except Refused as refused:
        return str(refused)
