"""When something was last done in a session: what the rule for idle sessions goes by."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from .processes import Process, Processes

_TERMINALS: Final = Path("/dev/pts")


class Activity:
    """An action, a keystroke, processor time. An open tab or a server that waits is none of it.

    Asking blocks: it reads files of the system.
    """

    def __init__(
        self, processes: Processes, *, editor: Path, last_action: Callable[[], float | None]
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
            "last_keystroke": max(self._keystrokes(found.values()), default=None),
            "cpu_seconds": round(self._seconds, 2),
            "processes": len(theirs),
        }

    def _count(self, processes: list[Process]) -> None:
        """Time moves from a process to its parent when it ends, so the sum stays; a whole family
        that ends takes its sum along, and that is no activity."""
        now = sum(each.seconds for each in processes)
        self._seconds += max(0.0, now - self._before)
        self._before = now

    def _keystrokes(self, processes: Any) -> list[float]:
        """The kernel notes when somebody's typing was last read from a terminal (to 8 seconds)."""
        terminals = {each.terminal for each in processes} - {-1}
        places = [*(_TERMINALS / str(number) for number in terminals)]
        times = [found for place in places if (found := _time(place, of="st_atime")) is not None]
        edited = _time(self._editor, of="st_mtime")
        return times if edited is None else [*times, edited]


def _time(file: Path, *, of: str) -> float | None:
    try:
        return float(getattr(file.stat(), of))
    except OSError:
        return None
