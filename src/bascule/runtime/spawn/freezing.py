"""Stops and continues the processes of a sandbox where no cgroup can freeze them.

A shell that sees its command stop assumes Ctrl-Z: it prints a message and continues with the rest
of the line. So no parent may see its child stopped: parents are stopped first, one generation after
the other, and continued last. All functions block.
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

from bascule.sandbox.process_table import ProcessInfo, process_info

ListProcesses = Callable[[], Mapping[int, ProcessInfo]]
"""The living processes of a sandbox at this moment, by PID."""

_STOP_TIMEOUT: Final = 60.0
"""Seconds to wait until all processes are stopped. The kernel has to schedule each
process once to stop it, which takes a while on a busy machine."""
_UNINTERRUPTIBLE_TIMEOUT: Final = 5.0
"""Seconds to wait for processes in an uninterruptible system call."""
_POLL_INTERVAL: Final = 0.001


def freeze(list_processes: ListProcesses, note: Path | None = None) -> Collection[ProcessInfo]:
    """Stop all processes. Returns when no process is left that could start another.

    `note`: the file in which to list the processes that were already stopped, for example by
    Ctrl-Z, and must stay stopped. An existing file is not changed: it belongs to a pause that began
    earlier.

    A process in an uninterruptible system call cannot notice that its child stopped, and stops
    after the call. So its children are stopped without waiting for the parent. This is necessary
    for a parent in `vfork`, which itself waits for its child.
    """
    began = monotonic()
    members = list_processes()
    if note is not None and not note.exists():
        _write_note(note, [each for each in members.values() if each.is_stopped])
    signalled: set[int] = set()
    while running := {pid: each for pid, each in members.items() if not each.is_stopped}:
        is_late = monotonic() > began + _STOP_TIMEOUT
        free = {
            pid
            for pid, each in running.items()
            if not (pid in signalled and each.is_uninterruptible)
        }
        if not free and monotonic() > began + _UNINTERRUPTIBLE_TIMEOUT:
            break
        eldest = [pid for pid, each in running.items() if each.parent not in free or is_late]
        for pid in eldest:
            signal_one(pid, signal.SIGSTOP)
        if is_late:
            break
        signalled.update(eldest)
        if not free:
            sleep(_POLL_INTERVAL)
        _wait_until_stopped(eldest, began + _STOP_TIMEOUT)
        members = list_processes()
    return members.values()


def thaw(list_processes: ListProcesses, note: Path | None = None) -> None:
    """Continue all processes, children before parents, except those listed in `note`."""
    members = list_processes()
    keep_stopped = _read_note(note)
    for each in _youngest_first(members):
        if (each.pid, each.started) not in keep_stopped:
            signal_one(each.pid, signal.SIGCONT)
    if note is not None:
        note.unlink(missing_ok=True)


def signal_one(pid: int, number: signal.Signals) -> None:
    """Send a signal through a pidfd, so that it never reaches another process with the same PID."""
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def _wait_until_stopped(pids: Collection[int], deadline: float) -> None:
    """Poll until none of the processes can run code: the kernel notifies only their parents."""
    running = set(pids)
    while running and monotonic() < deadline:
        running = {pid for pid in running if _can_run(process_info(pid))}
        if running:
            sleep(_POLL_INTERVAL)


def _can_run(process: ProcessInfo | None) -> bool:
    """Whether a process that was sent SIGSTOP may still run code."""
    return process is not None and not (process.is_stopped or process.is_uninterruptible)


def _youngest_first(members: Mapping[int, ProcessInfo]) -> Iterator[ProcessInfo]:
    def depth(each: ProcessInfo) -> int:
        steps = 0
        while (above := members.get(each.parent)) is not None and steps < len(members):
            each, steps = above, steps + 1
        return steps

    yield from sorted(members.values(), key=depth, reverse=True)


def _write_note(note: Path, stopped: Collection[ProcessInfo]) -> None:
    new = note.with_name(note.name + ".new")
    new.write_text(json.dumps([[each.pid, each.started] for each in stopped]))
    new.rename(note)


def _read_note(note: Path | None) -> set[tuple[int, int]]:
    if note is None:
        return set()
    try:
        return {(int(pid), int(started)) for pid, started in json.loads(note.read_text())}
    except FileNotFoundError:
        return set()
