"""Every process that one process brought about, found without a namespace or a cgroup.

Belongs: a process that carries the family's mark in the environment it was started with, the
descendants of one that belongs, and the members of a terminal session that one of them leads.
Only a process that cleared its environment, left its session and lost its parents gets away;
whoever must not let that happen needs a spawner that isolates.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from bascule.core.sessions import Usage

MARK: Final = "BASCULE_SANDBOX"
"""The variable that holds a family's mark."""

_STOPPING: Final = 5.0
"""Seconds that processes have to stop."""
_GLANCE: Final = 0.001

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Member:
    """A process as `/proc` showed it."""

    pid: int
    parent: int
    session: int
    state: str
    ticks: int
    """Of CPU, its own and those of children it has waited for."""
    pages: int


def family(mark: str) -> dict[int, Member]:
    """All living members, by process number. Zombies are dead."""
    everybody = {each.pid: each for each in _processes()}
    marked = f"{MARK}={mark}".encode()
    found = {pid for pid in everybody if marked in _environment(pid)}
    while more := _kin(everybody, found):
        found |= more
    return {pid: everybody[pid] for pid in found}


def freeze(mark: str) -> Collection[Member]:
    """Stop all of them where they are; returns once no one is left who could start another.

    Those in the middle of a system call that cannot be broken off are waited for no longer than
    `_STOPPING`: they stop when it is done.
    """
    signalled: set[int] = set()
    deadline = monotonic() + _STOPPING
    while True:
        members = family(mark).values()
        running = {each.pid for each in members if each.state not in "Tt"}
        for pid in running - signalled:
            _signal(pid, signal.SIGSTOP)
        if not running or (running <= signalled and monotonic() > deadline):
            return members
        signalled |= running
        sleep(_GLANCE)  # the kernel tells nobody but parents when one stops


def thaw(mark: str) -> None:
    for pid in family(mark):
        _signal(pid, signal.SIGCONT)


def kill_leader(mark: str, leader: int, *, heirs: bytes, within: float = 2.0) -> None:
    """End one of them by force, and wait for those that clear up after it.

    `heirs`: what is in their command lines. Killed with the rest they would leave their files.
    """
    members = family(mark)
    pids = [pid for pid in members if heirs in _command(pid)]
    handles = [handle for pid in pids if (handle := _handle(pid)) is not None]
    try:
        for pid in (leader,) if leader in members else ():
            _signal(pid, signal.SIGKILL)
        for pid in pids:
            _signal(pid, signal.SIGCONT)
        _wait_for_ends(handles, monotonic() + within)
    finally:
        for handle in handles:
            os.close(handle)


def kill(mark: str, *, within: float = 10.0) -> None:
    """End all of them by force, and return once they are gone."""
    deadline = monotonic() + within
    while members := freeze(mark):
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


def usage(members: Collection[Member]) -> Usage:
    return Usage(
        cpu_seconds=sum(each.ticks for each in members) / _TICKS,
        memory_bytes=sum(each.pages for each in members) * _PAGE,
        processes=len(members),
    )


def _kin(everybody: dict[int, Member], found: set[int]) -> set[int]:
    return {
        pid
        for pid, each in everybody.items()
        if pid not in found and (each.parent in found or each.session in found)
    }


def _processes() -> Iterator[Member]:
    for entry in os.listdir("/proc"):  # noqa: PTH208 - names only, and there are many
        if entry.isdigit() and (member := _member(int(entry))) is not None:
            yield member


def _member(pid: int) -> Member | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is a name in parentheses that may hold anything, parentheses too.
    fields = text[text.rindex(b")") + 2 :].split()
    state = fields[0].decode()
    if state in "ZX":
        return None
    return Member(
        pid=pid,
        parent=int(fields[1]),
        session=int(fields[3]),
        state=state,
        ticks=sum(map(int, fields[11:15])),
        pages=int(fields[21]),
    )


def _environment(pid: int) -> list[bytes]:
    """What it was started with; nothing for processes that are not ours to look at."""
    return _read(pid, "environ").split(b"\0")


def _command(pid: int) -> bytes:
    return _read(pid, "cmdline")


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def _signal(pid: int, number: signal.Signals) -> None:
    if (handle := _handle(pid)) is None:
        return
    try:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)


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
