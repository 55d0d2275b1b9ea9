"""Processes as the kernel tells of them: who is in a namespace, what they use, when they end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from bascule.core.sessions import Usage

_PROC: Final = Path("/proc")
_TICK: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class ProcessHandle:
    """One process for as long as we look at it: its number cannot become another's meanwhile."""

    def __init__(self, pid: int) -> None:
        """Raises `ProcessLookupError` when there is none."""
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    @property
    def is_over(self) -> bool:
        watched = select.poll()
        watched.register(self._descriptor, select.POLLIN)
        return bool(watched.poll(0))

    def signal(self, number: signal.Signals) -> None:
        """One that has ended is not signalled."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, number)

    async def ended(self) -> None:
        """Wait until it has ended; its parent may not have asked for its status yet."""
        loop = asyncio.get_running_loop()
        over = loop.create_future()
        watched = os.dup(self._descriptor)  # several may wait, and a loop has one reader for each

        def on_ready() -> None:
            loop.remove_reader(watched)
            if not over.done():
                over.set_result(None)

        loop.add_reader(watched, on_ready)
        try:
            await over
        finally:
            loop.remove_reader(watched)
            os.close(watched)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def namespace_of(pid: int) -> int:
    """The number of its PID namespace; 0 when it cannot be told."""
    try:
        return (_PROC / str(pid) / "ns" / "pid").stat().st_ino
    except OSError:
        return 0


def firsts() -> Mapping[int, int]:
    """By PID namespace, as far as we may look, the process whose end is the end of all in it."""
    found = {namespace_of(pid): pid for pid in _all() if _is_first(pid)}
    found.pop(0, None)
    return found


def members(namespace: int) -> Iterator[int]:
    """Every process in that PID namespace, as far as we may look."""
    return (pid for pid in _all() if namespace and namespace_of(pid) == namespace)


def is_stopped(pid: int) -> bool:
    return _stat(pid)[:1] == ["T"]


def usage_of(pids: Iterator[int]) -> Usage:
    """Without cgroups. Memory that processes share is left out, not counted for each of them."""
    seconds, pages, count = 0.0, 0, 0
    for pid in pids:
        fields = _stat(pid)
        if len(fields) < 15:
            continue
        # user and system time, of itself and of its children that have ended
        seconds += sum(map(int, fields[11:15])) / _TICK
        pages += _own_pages(pid)
        count += 1
    return Usage(cpu_seconds=seconds, memory_bytes=pages * _PAGE, processes=count)


def _all() -> Iterator[int]:
    return (int(entry.name) for entry in os.scandir(_PROC) if entry.name.isdigit())


def _own_pages(pid: int) -> int:
    with contextlib.suppress(OSError):
        _, resident, shared = (_PROC / str(pid) / "statm").read_text().split()[:3]
        return int(resident) - int(shared)
    return 0


def _stat(pid: int) -> list[str]:
    """From the state on: the name before it may hold anything."""
    with contextlib.suppress(OSError):
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return []


def _is_first(pid: int) -> bool:
    with contextlib.suppress(OSError):
        for line in (_PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return line.split()[-1] == "1"
    return False
