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
        self,
        processes: SessionProcesses,
        *,
        keystroke_file: Path,
        last_action: Callable[[], float | None],
    ) -> None:
        """`keystroke_file`: a VS Code window touches this file when somebody types in it."""
        self._processes = processes
        self._keystroke_file = keystroke_file
        self._last_action = last_action
        self._cpu_seconds = 0.0
        self._last_sum = 0.0

    def read(self) -> dict[str, Any]:
        found = self._processes.current()
        counted = [each for pid, each in found.items() if not self._processes.is_hidden(pid, found)]
        self._add_cpu_time(counted)
        return {
            "last_action": self._last_action(),
            "last_keystroke": max(self._keystrokes(counted), default=None),
            "cpu_seconds": round(self._cpu_seconds, 2),
            "processes": len(counted),
        }

    def _add_cpu_time(self, processes: list[ProcessInfo]) -> None:
        """Add CPU time used since the last call.

        When a process ends, its time moves to its parent, so the sum stays the same. When a parent
        ends with its children, the sum decreases, which is not activity.
        """
        new_sum = sum(each.cpu_seconds for each in processes)
        self._cpu_seconds += max(0.0, new_sum - self._last_sum)
        self._last_sum = new_sum

    def _keystrokes(self, processes: Sequence[ProcessInfo]) -> Iterator[float]:
        for terminal in {each.terminal for each in processes} - {-1}:
            if (typed := _typed_at(_TERMINALS / str(terminal))) is not None:
                yield typed
        with suppress(FileNotFoundError):
            yield self._keystroke_file.stat().st_mtime


def _typed_at(terminal: Path) -> float | None:
    """Return when typed input was last read from the terminal, with a precision of 8 seconds.

    The kernel stores this time as the atime. A new terminal has an atime too, but that atime is not
    later than the ctime.
    """
    try:
        times = terminal.stat()
    except OSError:
        return None
    return times.st_atime if times.st_atime > times.st_ctime else None
