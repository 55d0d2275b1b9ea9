"""Processes as `/proc` shows them at one moment, and which of them belong together."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Member:
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


def everybody() -> Mapping[int, Member]:
    """All living processes, by number. Zombies are dead."""
    return {each.pid: each for each in _processes()}


def with_kin(found: Collection[int], everybody: Mapping[int, Member]) -> dict[int, Member]:
    """Those, their descendants, and the members of terminal sessions that one of them leads."""
    known = set(found) & everybody.keys()
    while more := _kin(everybody, known):
        known |= more
    return {pid: everybody[pid] for pid in known}


def member(pid: int) -> Member | None:
    """None: there is none of that number, or it is a zombie."""
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
        started=int(fields[19]),
        pages=int(fields[21]),
    )


def _kin(everybody: Mapping[int, Member], found: set[int]) -> set[int]:
    return {
        pid
        for pid, each in everybody.items()
        if pid not in found and (each.parent in found or each.session in found)
    }


def _processes() -> Iterator[Member]:
    for entry in os.listdir("/proc"):  # noqa: PTH208 - names only, and there are many
        if entry.isdigit() and (found := member(int(entry))) is not None:
            yield found
