"""Finds every descendant of a sandbox's first process, without a namespace or cgroup.

A process belongs to a sandbox if it has the sandbox's mark in its initial environment, descends
from such a process, or is in a terminal session that such a process leads. A process escapes only
if it cleared its environment, left its terminal session and lost its parents. To prevent this, use
a spawner with isolation.
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from time import monotonic
from typing import Final

from bascule.sandbox.process_table import (
    ProcessInfo,
    all_processes,
    arguments,
    environment,
    with_relatives,
)

from .freezing import freeze, signal_one

MARK: Final = "BASCULE_SANDBOX"
"""The environment variable that holds a sandbox's mark."""


def marked_processes(mark: str) -> dict[int, ProcessInfo]:
    """All living processes with the mark, by PID. Zombies do not count."""
    found = all_processes()
    marked = f"{MARK}={mark}".encode()
    return with_relatives([pid for pid in found if marked in environment(pid)], found)


def kill_leader(mark: str, leader: int, *, cleaner: bytes, within: float = 2.0) -> None:
    """Kill the process `leader`, and wait for the processes that clean up after it.

    `cleaner`: a text in the command lines of these processes. If they were killed too, temporary
    files would remain.
    """
    members = marked_processes(mark)
    pids = [pid for pid in members if cleaner in b" ".join(arguments(pid))]
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
    """Kill all processes with the mark, and wait until they have ended."""
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


def _handle(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def _wait_for_ends(handles: list[int], deadline: float) -> None:
    poll = select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    running = len(handles)
    while running and (time := deadline - monotonic()) > 0:
        for handle, _ in poll.poll(time * 1000):
            poll.unregister(handle)
            running -= 1
