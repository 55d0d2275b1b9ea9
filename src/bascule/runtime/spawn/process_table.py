"""A snapshot of the processes in `/proc`, and which of them belong together."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """A process as `/proc` showed it."""

    pid: int
    parent: int
    session: int
    state: str
    ticks: int
    """Of CPU, its own and those of children it has waited for."""
    started: int
    """In ticks since the machine was started; with `pid` it names one process for ever."""
    pages: int

    @property
    def is_stopped(self) -> bool:
        return self.state in "Tt"


def all_processes() -> Mapping[int, ProcessInfo]:
    """All living processes by PID. Zombies do not count."""
    return {each.pid: each for each in _processes()}


def with_relatives(
    found: Collection[int], processes: Mapping[int, ProcessInfo]
) -> dict[int, ProcessInfo]:
    """These processes, their descendants, and members of terminal sessions they lead."""
    known = set(found) & processes.keys()
    while more := _relatives(processes, known):
        known |= more
    return {pid: processes[pid] for pid in known}


def process_info(pid: int) -> ProcessInfo | None:
    """The process; None if there is none of that PID, or it is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is a name in parentheses that may hold anything, parentheses too.
    fields = text[text.rindex(b")") + 2 :].split()
    state = fields[0].decode()
    if state in "ZX":
        return None
    return ProcessInfo(
        pid=pid,
        parent=int(fields[1]),
        session=int(fields[3]),
        state=state,
        ticks=sum(map(int, fields[11:15])),
        started=int(fields[19]),
        pages=int(fields[21]),
    )


def _relatives(processes: Mapping[int, ProcessInfo], found: set[int]) -> set[int]:
    return {
        pid
        for pid, each in processes.items()
        if pid not in found and (each.parent in found or each.session in found)
    }


def _processes() -> Iterator[ProcessInfo]:
    for entry in os.listdir("/proc"):  # noqa: PTH208 - names only, and there are many
        if entry.isdigit() and (found := process_info(int(entry))) is not None:
            yield found
