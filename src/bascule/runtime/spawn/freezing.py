"""Stops and continues the processes of a sandbox where no cgroup can freeze them.

A shell that sees its command stop takes it for one that somebody stopped by Ctrl-Z: it says so and
goes on with the rest of the line. So no parent may see a child of its own stopped: parents are
stopped first, each generation until all of it has stopped, and continued last. All of it blocks.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from .process_table import ProcessInfo, process_info

ListProcesses = Callable[[], Mapping[int, ProcessInfo]]
"""The living processes of a sandbox at this moment, by number."""

_STOP_TIMEOUT: Final = 5.0
"""Seconds to wait until the processes are stopped."""
_POLL_INTERVAL: Final = 0.001


def freeze(list_processes: ListProcesses, note: Path | None = None) -> Collection[ProcessInfo]:
    """Stop all processes; returns once none is left that could start another.

    `note`: a file to remember which were stopped already, by Ctrl-Z say, and have to stay so when
    the others continue. One that is there is kept: it is of a pause that was begun before.
    Processes in a system call that cannot be interrupted are waited for `_STOP_TIMEOUT` at most;
    they stop when it is done.
    """
    deadline = monotonic() + _STOP_TIMEOUT
    members = list_processes()
    if note is not None and not note.exists():
        _remember(note, [each for each in members.values() if each.is_stopped])
    while running := {pid: each for pid, each in members.items() if not each.is_stopped}:
        is_late = monotonic() > deadline
        eldest = [pid for pid, each in running.items() if each.parent not in running or is_late]
        for pid in eldest:
            signal_one(pid, signal.SIGSTOP)
        if is_late:
            break
        _wait_until_stopped(eldest, deadline)
        members = list_processes()
    return members.values()


def thaw(list_processes: ListProcesses, note: Path | None = None) -> None:
    """Continue all processes, children before parents, except those listed in `note`."""
    members = list_processes()
    kept = _remembered(note)
    for each in _youngest_first(members):
        if (each.pid, each.started) not in kept:
            signal_one(each.pid, signal.SIGCONT)
    if note is not None:
        note.unlink(missing_ok=True)


def signal_one(pid: int, number: signal.Signals) -> None:
    """Send a signal through a pidfd, so that a process with a reused PID is not hit."""
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def _wait_until_stopped(pids: Collection[int], deadline: float) -> None:
    """Poll until the processes are stopped: the kernel tells only their parents."""
    left = set(pids)
    while left and monotonic() < deadline:
        left = {
            pid for pid in left if (now := process_info(pid)) is not None and not now.is_stopped
        }
        if left:
            sleep(_POLL_INTERVAL)


def _youngest_first(members: Mapping[int, ProcessInfo]) -> Iterator[ProcessInfo]:
    def depth(each: ProcessInfo) -> int:
        steps = 0
        while (above := members.get(each.parent)) is not None and steps < len(members):
            each, steps = above, steps + 1
        return steps

    yield from sorted(members.values(), key=depth, reverse=True)


def _remember(note: Path, stopped: Collection[ProcessInfo]) -> None:
    new = note.with_name(note.name + ".new")
    new.write_text(json.dumps([[each.pid, each.started] for each in stopped]))
    new.rename(note)


def _remembered(note: Path | None) -> set[tuple[int, int]]:
    if note is None:
        return set()
    try:
        return {(int(pid), int(started)) for pid, started in json.loads(note.read_text())}
    except FileNotFoundError:
        return set()
