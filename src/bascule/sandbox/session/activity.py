"""Measures activity in a session; the hub uses it to stop idle sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from .processes import SessionProcess, SessionProcesses

_TERMINALS: Final = Path("/dev/pts")


class ActivityMonitor:
    """Reports the last action, the last keystroke and CPU time.

    Open tabs, keep-alives and idle servers do not count as activity.

    Asking blocks: it reads files of the system.
    """

    def __init__(
        self, processes: SessionProcesses, *, editor: Path, last_action: Callable[[], float | None]
    ) -> None:
        """`editor`: the file that a VS Code window touches when somebody types in it."""
        self._processes = processes
        self._editor = editor
        self._last_action = last_action
        self._seconds = 0.0
        self._before = 0.0

    def read(self) -> dict[str, Any]:
        found = self._processes.look()
        theirs = [each for pid, each in found.items() if not self._processes.is_hidden(pid, found)]
        self._count(theirs)
        return {
            "last_action": self._last_action(),
            "last_keystroke": max(self._keystrokes(theirs), default=None),
            "cpu_seconds": round(self._seconds, 2),
            "processes": len(theirs),
        }

    def _count(self, processes: list[SessionProcess]) -> None:
        """Time moves from a process to its parent when it ends, so the sum stays; a whole family
        that ends takes its sum along, and that is no activity."""
        now = sum(each.seconds for each in processes)
        self._seconds += max(0.0, now - self._before)
        self._before = now

    def _keystrokes(self, processes: Sequence[SessionProcess]) -> Iterator[float]:
        for terminal in {each.terminal for each in processes} - {-1}:
            if (typed := _typed_at(_TERMINALS / str(terminal))) is not None:
                yield typed
        with suppress(FileNotFoundError):
            yield self._editor.stat().st_mtime


def _typed_at(terminal: Path) -> float | None:
    """When somebody's typing was last read from it, to 8 seconds, which the kernel notes.

    A terminal that was made has that time too, and has it as the time of its last change as well.
    """
    try:
        found = terminal.stat()
    except OSError:
        return None
    return found.st_atime if found.st_atime > found.st_ctime else None
