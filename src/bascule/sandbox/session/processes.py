"""The processes of a session, read from /proc. Every call blocks for a moment."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICK: Final = os.sysconf("SC_CLK_TCK")
_PSEUDOTERMINALS: Final = range(136, 144)
"""Major numbers of the terminals in /dev/pts."""


@dataclass(frozen=True, slots=True)
class SessionProcess:
    """One process at the moment it was looked at."""

    pid: int
    parent: int
    terminal: int
    """Its controlling terminal's number in /dev/pts; -1: none there."""
    own_seconds: float
    """Of processor time."""
    children_seconds: float
    """Of children that have ended and were waited for."""

    @property
    def seconds(self) -> float:
        return self.own_seconds + self.children_seconds


class SessionProcesses:
    """The descendants of `root`, or all processes if the session has its own PID namespace.

    What serves the session (VS Code, its headless tab) belongs to it but does no work of its own;
    it is named by `hide`.
    """

    def __init__(self, *, root: int, is_isolated: bool) -> None:
        self._root = root
        self._is_isolated = is_isolated
        self._hidden: dict[int, str] = {}

    def hide(self, pid: int, *, below: str = "") -> Callable[[], None]:
        """Leave out `pid` and what it started, or of that only programs whose file is `below` a
        directory. Call what this returns when it has ended."""
        self._hidden[pid] = below

        def show() -> None:
            self._hidden.pop(pid, None)

        return show

    def look(self) -> Mapping[int, SessionProcess]:
        found = {each.pid: each for each in map(_read, _pids()) if each is not None}
        if self._is_isolated:
            return found
        return {pid: found[pid] for pid in _descendants(found, self._root) if pid in found}

    def is_hidden(self, pid: int, found: Mapping[int, SessionProcess]) -> bool:
        """Whether it only serves the session: this process itself, or what `hide` named."""
        if pid == self._root:
            return True
        for above in _ancestry(pid, found):
            if above in self._hidden:
                below = self._hidden[above]
                return pid == above or not below or _program(pid).startswith(below)
        return False


def holders(inodes: Collection[int], pids: Collection[int]) -> dict[int, int]:
    """Which process has each of these sockets open, as far as we may look; the first one found."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: dict[int, int] = {}
    for pid in sorted(pids):
        for link in _descriptors(pid):
            inode = wanted.get(link)
            if inode is not None:
                found.setdefault(inode, pid)
    return found


def command(pid: int) -> str:
    """As people write it; empty when the process has ended or has none."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return words.replace(b"\0", b" ").decode(errors="replace").strip()


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdecimal())  # noqa: PTH208


def _read(pid: int) -> SessionProcess | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:  # it has just ended
        return None
    # The name may hold anything, so what counts begins behind its last bracket.
    words = text.rpartition(b")")[2].split()
    own, children = int(words[11]) + int(words[12]), int(words[13]) + int(words[14])
    return SessionProcess(
        pid, int(words[1]), _terminal(int(words[4])), own / _TICK, children / _TICK
    )


def _terminal(device: int) -> int:
    major, minor = os.major(device), os.minor(device)
    return ((major - 136) << 8) + minor if major in _PSEUDOTERMINALS else -1


def _descendants(found: Mapping[int, SessionProcess], root: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for each in found.values():
        children.setdefault(each.parent, []).append(each.pid)
    family, left = set(), [root]
    while left:
        pid = left.pop()
        if pid not in family:
            family.add(pid)
            left += children.get(pid, ())
    return family


def _ancestry(pid: int, found: Mapping[int, SessionProcess]) -> Iterator[int]:
    """The process itself, its parent, and so on."""
    seen = set()
    while pid in found and pid not in seen:
        seen.add(pid)
        yield pid
        pid = found[pid].parent


def _program(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/exe")  # noqa: PTH115
    except OSError:
        return ""


def _descriptors(pid: int) -> Iterator[str]:
    try:
        names = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208
    except OSError:
        return
    for name in names:
        try:
            yield os.readlink(f"/proc/{pid}/fd/{name}")  # noqa: PTH115
        except OSError:
            continue
