"""Gives each concurrent conversation of this process its own shell name in a window."""

from __future__ import annotations

import threading


class ShellNames:
    """Concurrent conversations get separate shells. Consecutive conversations share the first
    shell, so that a window does not fill with terminals."""

    def __init__(self) -> None:
        self._taken: set[int] = set()
        self._lock = threading.Lock()

    def take(self) -> str:
        """A shell name that is not in use. The first name is empty: the default shell."""
        with self._lock:
            number = next(n for n in range(1, len(self._taken) + 2) if n not in self._taken)
            self._taken.add(number)
        return "" if number == 1 else f"openhands-{number}"

    def release(self, name: str) -> None:
        with self._lock:
            self._taken.discard(int(name.rpartition("-")[2] or 1))
