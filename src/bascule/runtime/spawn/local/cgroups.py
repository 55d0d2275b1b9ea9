"""Resource limits, freezing and accounting by cgroups, versions 1 and 2.

All operations read and write small files in memory. One parent group contains a group per session.
The name of the parent group identifies the hub, so that two hubs on a machine never remove each
other's groups.
"""

from __future__ import annotations

import contextlib
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from bascule.core.sessions import SessionLimits, Usage

MOUNTED: Final = Path("/sys/fs/cgroup")
_PERIOD_MICROSECONDS: Final = 100_000
"""Microseconds over which a quota of CPU time is counted."""
_V1_CONTROLLERS: Final = ("memory", "cpu", "cpuacct", "pids", "freezer")
_V2_CONTROLLERS: Final = ("memory", "cpu", "pids")


class Cgroups(ABC):
    """One group for each session; `name` is the session's id. Queries about a missing group return
    zeros."""

    version: str
    """The version of cgroups, for display."""

    @abstractmethod
    def make(self, name: str, limits: SessionLimits) -> Sequence[Path]:
        """Create the group with its limits; returns the files to which a process writes 0
        to join."""

    @abstractmethod
    def names(self) -> Sequence[str]: ...

    @abstractmethod
    def freeze(self, name: str, *, on: bool) -> None: ...

    @abstractmethod
    def is_frozen(self, name: str) -> bool: ...

    @abstractmethod
    def usage(self, name: str) -> Usage: ...

    @abstractmethod
    def kills_for_memory(self, name: str) -> int:
        """How many processes were killed because of the memory limit."""

    @abstractmethod
    def directories(self, name: str) -> Sequence[Path]: ...

    def processes(self, name: str) -> frozenset[int]:
        """PIDs of the processes in the group, in this process's PID namespace."""
        files = (directory / "cgroup.procs" for directory in self.directories(name))
        return frozenset(int(line) for file in files for line in _read(file).split()) - {0}

    def kill(self, name: str) -> None:
        """Kill all processes in the group.

        A process that is forked meanwhile may survive. So callers repeat the call until no process
        is left.
        """
        for pid in self.processes(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def remove(self, name: str) -> None:
        """Remove the group. Raises `OSError` while processes are in it."""
        for directory in self.directories(name):
            with contextlib.suppress(FileNotFoundError):
                directory.rmdir()

    @abstractmethod
    def remove_all(self) -> None:
        """Remove our own parent group, if no session is left."""


class CgroupsV1(Cgroups):
    version = "cgroup v1"

    def __init__(self, name: str, mounted: Path = MOUNTED) -> None:
        """Raises `OSError` if groups cannot be created here."""
        self._bases = {kind: mounted / kind / name for kind in _V1_CONTROLLERS}
        for base in self._bases.values():
            _make_dir(base)

    def make(self, name: str, limits: SessionLimits) -> Sequence[Path]:
        for directory in self.directories(name):
            _make_dir(directory.parent)
            _make_dir(directory)
        memory = self._bases["memory"] / name
        if limits.memory is not None:
            _write(memory / "memory.limit_in_bytes", limits.memory)
            if (memory / "memory.memsw.limit_in_bytes").exists():
                _write(memory / "memory.memsw.limit_in_bytes", limits.memory)
        if limits.cpus is not None:
            _write(self._bases["cpu"] / name / "cpu.cfs_period_us", _PERIOD_MICROSECONDS)
            _write(self._bases["cpu"] / name / "cpu.cfs_quota_us", _quota(limits.cpus))
        if limits.processes is not None:
            _write(self._bases["pids"] / name / "pids.max", limits.processes)
        return [directory / "cgroup.procs" for directory in self.directories(name)]

    def names(self) -> Sequence[str]:
        return sorted({name for base in self._bases.values() for name in _groups_in(base)})

    def freeze(self, name: str, *, on: bool) -> None:
        _write(self._bases["freezer"] / name / "freezer.state", "FROZEN" if on else "THAWED")

    def is_frozen(self, name: str) -> bool:
        state = _read(self._bases["freezer"] / name / "freezer.state").strip()
        return state in ("FROZEN", "FREEZING")

    def usage(self, name: str) -> Usage:
        memory = self._bases["memory"] / name
        unused = _table(memory / "memory.stat").get("total_inactive_file", 0)
        return Usage(
            cpu_seconds=_number(self._bases["cpuacct"] / name / "cpuacct.usage") / 1e9,
            memory_bytes=max(0, _number(memory / "memory.usage_in_bytes") - unused),
            processes=_number(self._bases["pids"] / name / "pids.current"),
        )

    def kills_for_memory(self, name: str) -> int:
        return _table(self._bases["memory"] / name / "memory.oom_control").get("oom_kill", 0)

    def directories(self, name: str) -> Sequence[Path]:
        """The group's directories without duplicates: cpu and cpuacct may be the same directory."""
        return list({(base / name).resolve(): None for base in self._bases.values()})

    def remove_all(self) -> None:
        for base in self._bases.values():
            with contextlib.suppress(OSError):  # sessions of another warden are in it
                base.rmdir()


class CgroupsV2(Cgroups):
    version = "cgroup v2"

    def __init__(self, name: str, mounted: Path = MOUNTED) -> None:
        """Raises `OSError` if groups cannot be created here."""
        self._base = mounted / name
        _make_dir(self._base)
        for group in (mounted, self._base):
            _write(
                group / "cgroup.subtree_control", " ".join(f"+{kind}" for kind in _V2_CONTROLLERS)
            )

    def make(self, name: str, limits: SessionLimits) -> Sequence[Path]:
        group = self._base / name
        _make_dir(group)
        if limits.memory is not None:
            _write(group / "memory.max", limits.memory)
            if (group / "memory.swap.max").exists():
                _write(group / "memory.swap.max", 0)
        if limits.cpus is not None:
            _write(group / "cpu.max", f"{_quota(limits.cpus)} {_PERIOD_MICROSECONDS}")
        if limits.processes is not None:
            _write(group / "pids.max", limits.processes)
        return [group / "cgroup.procs"]

    def names(self) -> Sequence[str]:
        return sorted(_groups_in(self._base))

    def freeze(self, name: str, *, on: bool) -> None:
        _write(self._base / name / "cgroup.freeze", int(on))

    def is_frozen(self, name: str) -> bool:
        return _read(self._base / name / "cgroup.freeze").strip() == "1"

    def usage(self, name: str) -> Usage:
        group = self._base / name
        unused = _table(group / "memory.stat").get("inactive_file", 0)
        return Usage(
            cpu_seconds=_table(group / "cpu.stat").get("usage_usec", 0) / 1e6,
            memory_bytes=max(0, _number(group / "memory.current") - unused),
            processes=_number(group / "pids.current"),
        )

    def kills_for_memory(self, name: str) -> int:
        return _table(self._base / name / "memory.events").get("oom_kill", 0)

    def kill(self, name: str) -> None:
        try:
            _write(self._base / name / "cgroup.kill", 1, must_exist=True)
        except FileNotFoundError:  # Linux before 5.14
            super().kill(name)

    def directories(self, name: str) -> Sequence[Path]:
        return [self._base / name]

    def remove_all(self) -> None:
        with contextlib.suppress(OSError):
            self._base.rmdir()


def find_cgroups(name: str, mounted: Path = MOUNTED) -> tuple[Cgroups | None, str]:
    """The usable cgroups of this machine; or None and the reason."""
    try:
        if (mounted / "cgroup.controllers").exists():
            return _first_that_works(name, mounted), ""
        if all((mounted / kind / "cgroup.procs").exists() for kind in _V1_CONTROLLERS):
            return CgroupsV1(name, mounted), ""
    except OSError as error:
        return None, f"no cgroup can be made: {error.strerror} ({error.filename})"
    return None, f"{mounted} has neither version 2 nor the controllers {', '.join(_V1_CONTROLLERS)}"


def _first_that_works(name: str, mounted: Path) -> Cgroups:
    """Groups below the top-level group if this is permitted; otherwise below the group that is
    delegated to us (systemd's `Delegate=`)."""
    try:
        return CgroupsV2(name, mounted)
    except OSError:
        delegated = _own_group(mounted)
        if delegated is None:
            raise
        return CgroupsV2(name, delegated)


def _own_group(mounted: Path) -> Path | None:
    """The parent of our group: processes may only be in groups without subgroups."""
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        if line.startswith("0::/"):
            own = mounted / line[4:]
            return own.parent if own != mounted else None
    return None


def _quota(cpus: float) -> int:
    return max(1000, int(cpus * _PERIOD_MICROSECONDS))


def _groups_in(base: Path) -> Iterator[str]:
    with contextlib.suppress(FileNotFoundError):
        yield from (each.name for each in os.scandir(base) if each.is_dir(follow_symlinks=False))


def _make_dir(path: Path) -> None:
    with contextlib.suppress(FileExistsError):
        path.mkdir()


def _write(path: Path, value: object, *, must_exist: bool = False) -> None:
    flags = os.O_WRONLY | os.O_CLOEXEC | (0 if must_exist else os.O_CREAT | os.O_TRUNC)
    descriptor = os.open(path, flags, 0o644)
    try:
        os.write(descriptor, str(value).encode())
    finally:
        os.close(descriptor)


def _read(path: Path) -> str:
    """The text of a file; empty if the group was removed."""
    try:
        return path.read_text()
    except (FileNotFoundError, OSError) as error:
        if isinstance(error, FileNotFoundError) or error.errno == 19:  # ENODEV: just removed
            return ""
        raise


def _number(path: Path) -> int:
    return int(_read(path).strip() or 0)


def _table(path: Path) -> Mapping[str, int]:
    """Parse lines of a name and a number."""
    rows = (line.split() for line in _read(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
