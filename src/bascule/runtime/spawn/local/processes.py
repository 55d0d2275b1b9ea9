"""Processes by pidfd: members of a namespace, their usage, and their end."""

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
    """A process held by a pidfd, so that its PID cannot be reused meanwhile."""

    def __init__(self, pid: int) -> None:
        """Open a pidfd. Raises `ProcessLookupError` if there is no such process."""
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    @property
    def is_over(self) -> bool:
        watched = select.poll()
        watched.register(self._descriptor, select.POLLIN)
        return bool(watched.poll(0))

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; no effect if the process has ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, number)

    async def ended(self) -> None:
        """Wait until the process has ended, even if it is not reaped yet."""
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
    """The id of a process's PID namespace; 0 if unknown."""
    try:
        return (_PROC / str(pid) / "ns" / "pid").stat().st_ino
    except OSError:
        return 0


def firsts() -> Mapping[int, int]:
    """The first process of each visible PID namespace; its end kills all others in it."""
    found = {namespace_of(pid): pid for pid in _all() if _is_first(pid)}
    found.pop(0, None)
    return found


def members(namespace: int) -> Iterator[int]:
    """Every visible process in that PID namespace."""
    return (pid for pid in _all() if namespace and namespace_of(pid) == namespace)


def is_stopped(pid: int) -> bool:
    return _stat(pid)[:1] == ["T"]


def usage_of(pids: Iterator[int]) -> Usage:
    """Usage without cgroups. Memory shared between processes is left out."""
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
    """The fields of `/proc/PID/stat` after the name, which may contain anything."""
    with contextlib.suppress(OSError):
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return []


def _is_first(pid: int) -> bool:
    with contextlib.suppress(OSError):
        for line in (_PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return line.split()[-1] == "1"
    return False
