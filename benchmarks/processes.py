"""What the processes of a worker cost, seen from outside: CPU time, memory, and ending them.

A worker's processes are its descendants and whatever else carries its mark in the environment:
a tmux server, for one, leaves its parent but not its environment.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

TICK = 1 / os.sysconf("SC_CLK_TCK")
MARK = "BENCHMARK_WORKER"


@dataclass(frozen=True, slots=True)
class Memory:
    """In bytes, summed over processes."""

    rss: int
    pss: int


def family(root: int, mark: str) -> frozenset[int]:
    """`root`, its descendants, and every process with `mark` in its environment."""
    parents = {pid: parent for pid in _pids() if (parent := _parent(pid)) is not None}
    found = {root} | {pid for pid in parents if _is_marked(pid, mark)}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return frozenset(found)


def cpu_seconds(pids: Collection[int]) -> float:
    """CPU time used so far: to the nanosecond for what lives, by ticks for reaped children."""
    return sum(_own_cpu(pid) + _reaped_cpu(pid) for pid in pids)


def memory(pids: Collection[int]) -> Memory:
    rss = pss = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        figures = {line.split(":")[0]: line.split()[1] for line in lines[1:]}
        rss += int(figures["Rss"]) * 1024
        pss += int(figures["Pss"]) * 1024
    return Memory(rss, pss)


def end(root: int, mark: str) -> None:
    """Kill what is left of a worker's processes, apart from `root` itself."""
    for pid in family(root, mark) - {root}:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _own_cpu(pid: int) -> float:
    # The kernel's clock id of another process's CPU time, as clock_getcpuclockid(3) makes it:
    # unlike /proc/PID/stat it is not rounded to ticks, and it counts threads that are gone.
    try:
        return time.clock_gettime_ns((~pid << 3) | 2) / 1e9
    except OSError:
        return 0.0


def _reaped_cpu(pid: int) -> float:
    fields = _stat(pid)
    return (int(fields[13]) + int(fields[14])) * TICK if fields else 0.0


def _parent(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def _stat(pid: int) -> list[str]:
    """The fields after the name, which may itself hold spaces and parentheses."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _is_marked(pid: int, mark: str) -> bool:
    try:
        return f"{MARK}={mark}\0".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]
