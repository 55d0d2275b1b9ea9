"""Finds the processes of a session, and those that only serve the session.

Every call blocks the calling thread for a short time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from bascule.sandbox import process_table
from bascule.sandbox.process_table import ProcessInfo


class SessionProcesses:
    """The descendants of `root`, or all processes if the session has its own PID namespace.

    Processes that only serve the session (VS Code, its headless window) are registered with `hide`.
    """

    def __init__(self, *, root: int, is_isolated: bool) -> None:
        self._root = root
        self._is_isolated = is_isolated
        self._hidden: dict[int, str] = {}

    def hide(self, pid: int, *, below: str = "") -> Callable[[], None]:
        """Hide `pid` and its descendants; with `below`, only descendants whose executable is in
        that directory. Call the returned function when the process has ended."""
        self._hidden[pid] = below

        def show() -> None:
            self._hidden.pop(pid, None)

        return show

    def current(self) -> Mapping[int, ProcessInfo]:
        found = process_table.all_processes(with_zombies=True)
        return found if self._is_isolated else process_table.with_descendants(self._root, found)

    def is_hidden(self, pid: int, found: Mapping[int, ProcessInfo]) -> bool:
        """Whether the process only serves the session: `root` itself, or a process hidden by
        `hide`."""
        if pid == self._root:
            return True
        for above in _ancestry(pid, found):
            if above in self._hidden:
                below = self._hidden[above]
                program = process_table.program(pid) or ""
                return pid == above or not below or program.startswith(below)
        return False


def holders(inodes: Collection[int], pids: Collection[int]) -> dict[int, int]:
    """Return the first process that has each socket open, as far as we may read /proc."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: dict[int, int] = {}
    for pid in sorted(pids):
        for link in process_table.descriptors(pid):
            inode = wanted.get(link)
            if inode is not None:
                found.setdefault(inode, pid)
    return found


def command(pid: int) -> str:
    """Return the command line of a process as text; empty if the process has ended or has none."""
    return b" ".join(process_table.arguments(pid)).decode(errors="replace").strip()


def _ancestry(pid: int, found: Mapping[int, ProcessInfo]) -> Iterator[int]:
    """Yield the process itself, its parent, and so on."""
    seen = set()
    while pid in found and pid not in seen:
        seen.add(pid)
        yield pid
        pid = found[pid].parent
