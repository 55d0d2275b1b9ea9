"""The body of `/server_info`: facts about the process and the machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


class SystemInfo:
    """Figures since the server was created. `read` reads `/proc`: call it in a thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started = self._last_action = self._last_asked = time.monotonic()
        self._last_cpu = time.process_time()
        self.acted_at: float | None = None
        """Unix time at which an action last began or ended. None: never."""
        self.on_action: Callable[[], None] = lambda: None

    def touch(self) -> None:
        """Record that an action begins, runs or ends now."""
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
        """Average since the previous call, so that no call has to wait for a second sample."""
        cpu = time.process_time()
        share = (cpu - self._last_cpu) / max(now - self._last_asked, 1e-9)
        self._last_asked, self._last_cpu = now, cpu
        return 100 * share

    def _resources(self) -> dict[str, Any]:
        import psutil  # here, because the server starts faster without it

        process = psutil.Process()
        memory, disk = process.memory_info(), psutil.disk_usage(str(self._directory))
        try:
            io = process.io_counters()
            read, written = io.read_bytes, io.write_bytes
        except (psutil.AccessDenied, OSError):
            # If this process is not dumpable, root owns /proc/self/io and we cannot open it.
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
