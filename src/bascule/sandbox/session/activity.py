"""Measures activity in a session; the hub uses it to stop idle sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from bascule.sandbox.process_table import ProcessInfo

from .processes import SessionProcesses

_TERMINALS: Final = Path("/dev/pts")


class ActivityMonitor:
    """Reports the last action, the last keystroke and CPU time.

    Open tabs, keep-alives and idle servers do not count as activity.

    `read` blocks, because it reads files in /proc and /dev.
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
        found = self._processes.current()
        theirs = [each for pid, each in found.items() if not self._processes.is_hidden(pid, found)]
        self._count(theirs)
        return {
            "last_action": self._last_action(),
            "last_keystroke": max(self._keystrokes(theirs), default=None),
            "cpu_seconds": round(self._seconds, 2),
            "processes": len(theirs),
        }

    def _count(self, processes: list[ProcessInfo]) -> None:
        """Add CPU time used since the last call.

        When a process ends, its time moves to its parent, so the sum stays the same. When a parent
        ends with its children, the sum decreases, which is not activity.
        """
        now = sum(each.cpu_seconds for each in processes)
        self._seconds += max(0.0, now - self._before)
        self._before = now

    def _keystrokes(self, processes: Sequence[ProcessInfo]) -> Iterator[float]:
        for terminal in {each.terminal for each in processes} - {-1}:
            if (typed := _typed_at(_TERMINALS / str(terminal))) is not None:
                yield typed
        with suppress(FileNotFoundError):
            yield self._editor.stat().st_mtime


def _typed_at(terminal: Path) -> float | None:
    """Return when typed input was last read from the terminal, with a precision of 8 seconds.

    The kernel stores that time as the atime. A new terminal has an atime too, but it is not later
    than its ctime.
    """
    try:
        found = terminal.stat()
    except OSError:
        return None
    return found.st_atime if found.st_atime > found.st_ctime else None
