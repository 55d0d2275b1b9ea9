"""The body of `/server_info`: facts about the process and the machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


class SystemInfo:
    """Counts since the server was made. Asking reads files of the system: ask in a thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started = self._last_action = self._last_asked = time.monotonic()
        self._last_cpu = time.process_time()
        self.acted_at: float | None = None
        """When an action was last done, in seconds since 1970. None: never."""
        self.on_action: Callable[[], None] = lambda: None

    def touch(self) -> None:
        """An action is being done now."""
        self._last_action = time.monotonic()
        self.acted_at = time.time()
        self.on_action()

    def read(self) -> dict[str, Any]:
        now = time.monotonic()
        return {
            "uptime": now - self._started,
            "idle_time": now - self._last_action,
            "resources": {"cpu_percent": self._cpu_percent(now), **self._resources()},
        }

    def _cpu_percent(self, now: float) -> float:
        """Since it was asked for last, so that nobody has to wait for a second look."""
        cpu = time.process_time()
        share = (cpu - self._last_cpu) / max(now - self._last_asked, 1e-9)
        self._last_asked, self._last_cpu = now, cpu
        return 100 * share

    def _resources(self) -> dict[str, Any]:
        import psutil  # here, because a server that nobody asks starts faster without

        process = psutil.Process()
        memory, disk = process.memory_info(), psutil.disk_usage(str(self._directory))
        try:
            moved = process.io_counters()
            read, written = moved.read_bytes, moved.write_bytes
        except (psutil.AccessDenied, OSError):
            # A server that no program may look into is not shown its own /proc/self/io either.
            read = written = 0
        return {
            "memory": {"rss": memory.rss, "vms": memory.vms, "percent": process.memory_percent()},
            "disk": {
                "total": disk.total,
                "used": disk.used,
                "free": disk.free,
                "percent": disk.percent,
            },
            "io": {"read_bytes": read, "write_bytes": written},
        }
