"""Finds every descendant of a sandbox's first process, without a namespace or cgroup.

Belongs: a process that carries the family's mark in the environment it was started with, the
descendants of one that belongs, and the members of a terminal session that one of them leads.
Only a process that cleared its environment, left its session and lost its parents gets away;
whoever must not let that happen needs a spawner that isolates.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Final

from bascule.core.sessions import Usage

from .freezing import freeze, signal_one
from .process_table import ProcessInfo, all_processes, with_relatives

MARK: Final = "BASCULE_SANDBOX"
"""The variable that holds a family's mark."""

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def marked_processes(mark: str) -> dict[int, ProcessInfo]:
    """All living processes with the mark, by PID. Zombies do not count."""
    found = all_processes()
    marked = f"{MARK}={mark}".encode()
    return with_relatives([pid for pid in found if marked in _environment(pid)], found)


def kill_leader(mark: str, leader: int, *, heirs: bytes, within: float = 2.0) -> None:
    """Kill one of the processes, and wait for those that clean up after it.

    `heirs`: what is in their command lines. Killed with the rest they would leave their files.
    """
    members = marked_processes(mark)
    pids = [pid for pid in members if heirs in _command(pid)]
    handles = [handle for pid in pids if (handle := _handle(pid)) is not None]
    try:
        for pid in (leader,) if leader in members else ():
            signal_one(pid, signal.SIGKILL)
        for pid in pids:
            signal_one(pid, signal.SIGCONT)
        _wait_for_ends(handles, monotonic() + within)
    finally:
        for handle in handles:
            os.close(handle)


def kill(mark: str, *, within: float = 10.0) -> None:
    """Kill all of them, and wait until they are gone."""
    deadline = monotonic() + within
    while members := freeze(lambda: marked_processes(mark)):
        handles = [handle for member in members if (handle := _handle(member.pid)) is not None]
        try:
            for handle in handles:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            _wait_for_ends(handles, deadline)
        finally:
            for handle in handles:
                os.close(handle)
        if monotonic() > deadline:
            break


def usage(members: Collection[ProcessInfo]) -> Usage:
    return Usage(
        cpu_seconds=sum(each.ticks for each in members) / _TICKS,
        memory_bytes=sum(each.pages for each in members) * _PAGE,
        processes=len(members),
    )


def _environment(pid: int) -> list[bytes]:
    """The initial environment of a process; empty if we may not read it."""
    return _read(pid, "environ").split(b"\0")


def _command(pid: int) -> bytes:
    return _read(pid, "cmdline")


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def _handle(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def _wait_for_ends(handles: list[int], deadline: float) -> None:
    poll = select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    left = len(handles)
    while left and (time := deadline - monotonic()) > 0:
        for handle, _ in poll.poll(time * 1000):
            poll.unregister(handle)
            left -= 1
