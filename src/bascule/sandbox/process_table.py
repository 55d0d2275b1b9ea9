"""Reads `/proc`: state, parent, arguments and open files of processes.

A process may end between two reads, and processes of other users may be hidden. Each function then
returns None or an empty value, and never raises. Functions that read one file of one process are
fast enough for the event loop. Functions that list processes or descriptors block, because there
may be thousands.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bascule.core.sessions import Usage

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_PSEUDOTERMINALS: Final = range(136, 144)
"""Major device numbers of the terminals in /dev/pts."""


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """A process as `/proc` showed it."""

    pid: int
    parent: int
    session: int
    terminal: int
    """Number of the controlling terminal in /dev/pts; -1 if the process has no terminal, or one
    that is not in /dev/pts."""
    foreground: int
    """The process group in the foreground of its terminal; -1 if it has no terminal."""
    state: str
    ticks: int
    """CPU time in clock ticks, including children that the process has waited for."""
    started: int
    """Start time in ticks since boot. Together with `pid` it identifies one process uniquely."""

    @property
    def is_stopped(self) -> bool:
        return self.state in "Tt"

    @property
    def is_uninterruptible(self) -> bool:
        """Whether the process is in a system call that signals do not interrupt."""
        return self.state == "D"

    @property
    def is_zombie(self) -> bool:
        return self.state in "ZX"

    @property
    def cpu_seconds(self) -> float:
        return self.ticks / _TICKS_PER_SECOND


def process_info(pid: int) -> ProcessInfo | None:
    """Return the process; None if it does not exist or is a zombie."""
    found = _read_stat(pid)
    return None if found is None or found.is_zombie else found


def all_processes(*, with_zombies: bool = False) -> Mapping[int, ProcessInfo]:
    """Return all processes by PID.

    Callers that follow parents need zombies: a process whose first thread ended before its other
    threads is a zombie, and is still the parent of its children.
    """
    found = (each for pid in all_pids() if (each := _read_stat(pid)) is not None)
    return {each.pid: each for each in found if with_zombies or not each.is_zombie}


def all_pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdecimal())  # noqa: PTH208


def with_relatives(
    found: Collection[int], processes: Mapping[int, ProcessInfo]
) -> dict[int, ProcessInfo]:
    """Return the processes `found`, their descendants, and all members of the terminal sessions
    that they lead."""
    known = set(found) & processes.keys()
    while more := _relatives(processes, known):
        known |= more
    return {pid: processes[pid] for pid in known}


def with_descendants(root: int, processes: Mapping[int, ProcessInfo]) -> dict[int, ProcessInfo]:
    """Return the process `root` and all its descendants."""
    children: dict[int, list[int]] = {}
    for each in processes.values():
        children.setdefault(each.parent, []).append(each.pid)
    known, left = set(), [root]
    while left:
        pid = left.pop()
        if pid not in known:
            known.add(pid)
            left += children.get(pid, ())
    return {pid: processes[pid] for pid in known if pid in processes}


def usage_of(members: Iterable[ProcessInfo]) -> Usage:
    """Return the sum of CPU time and memory of these processes, without shared memory."""
    from bascule.core.sessions import Usage  # here: every shell imports this module

    seconds, pages, count = 0.0, 0, 0
    for each in members:
        seconds += each.cpu_seconds
        pages += _unshared_pages(each.pid)
        count += 1
    return Usage(cpu_seconds=seconds, memory_bytes=pages * _PAGE_BYTES, processes=count)


def exists(pid: int) -> bool:
    """Whether the process exists; true for a zombie too."""
    return Path(f"/proc/{pid}").exists()


def children(pid: int) -> list[int]:
    """Return the child processes of `pid`'s main thread; exact only while `pid` is stopped."""
    return [int(each) for each in _read(pid, f"task/{pid}/children").split()]


def arguments(pid: int) -> list[bytes]:
    """Return the arguments of the process, including its name; empty for a zombie and for kernel
    threads."""
    line = _read(pid, "cmdline")  # ends without a NUL if the program has overwritten it
    return line.removesuffix(b"\0").split(b"\0") if line else []


def environment(pid: int) -> list[bytes]:
    """Return the `NAME=value` pairs with which the process was started; empty if we may not read
    them."""
    return [pair for pair in _read(pid, "environ").split(b"\0") if pair]


def program(pid: int) -> str | None:
    """Return the path of its executable."""
    return _link(f"/proc/{pid}/exe")


def directory(pid: int) -> str | None:
    """Return its working directory."""
    return _link(f"/proc/{pid}/cwd")


def descriptor(pid: int, number: int) -> str | None:
    """Return the kernel's name of an open descriptor: a path, or for example `socket:[123]`."""
    return _link(f"/proc/{pid}/fd/{number}")


def descriptors(pid: int) -> Iterator[str]:
    """Yield the kernel's names of all its open descriptors, like `descriptor`."""
    try:
        names = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208
    except OSError:
        return
    for name in names:
        if (link := _link(f"/proc/{pid}/fd/{name}")) is not None:
            yield link


def pid_namespace(pid: int) -> int:
    """Return the id of its PID namespace; 0 if unknown."""
    try:
        return Path(f"/proc/{pid}/ns/pid").stat().st_ino
    except OSError:
        return 0


def is_first_in_namespace(pid: int) -> bool:
    """Whether it is PID 1 of its PID namespace; when it exits, the kernel kills the others."""
    for line in _read(pid, "status").splitlines():
        if line.startswith(b"NSpid:"):
            return line.split()[-1] == b"1"
    return False


def handles_signal(pid: int, number: int) -> bool:
    """Whether it catches or ignores the signal; false for a process that has ended."""
    masks = (b"SigCgt:", b"SigIgn:")
    lines = [line.split()[1] for line in _read(pid, "status").splitlines() if line[:7] in masks]
    return any(int(mask, 16) >> (number - 1) & 1 for mask in lines)


def _read_stat(pid: int) -> ProcessInfo | None:
    # The second field is a name in parentheses, and may itself contain spaces and parentheses.
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    if not fields:
        return None
    return ProcessInfo(
        pid=pid,
        parent=int(fields[1]),
        session=int(fields[3]),
        terminal=_terminal(int(fields[4])),
        foreground=int(fields[5]),
        state=fields[0].decode(),
        ticks=sum(map(int, fields[11:15])),
        started=int(fields[19]),
    )


def _terminal(device: int) -> int:
    major, minor = os.major(device), os.minor(device)
    return ((major - 136) << 8) + minor if major in _PSEUDOTERMINALS else -1


def _unshared_pages(pid: int) -> int:
    fields = _read(pid, "statm").split()
    return int(fields[1]) - int(fields[2]) if fields else 0


def _relatives(processes: Mapping[int, ProcessInfo], found: set[int]) -> set[int]:
    return {
        pid
        for pid, each in processes.items()
        if pid not in found and (each.parent in found or each.session in found)
    }


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115 -- twice as fast as pathlib, and called often
    except OSError:
        return None
