"""What `/server_info` tells about the process and the machine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import psutil


class SystemInfo:
    """Counts since the server was made; asking is quick but reads files, so ask in a thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started = time.monotonic()
        self._last_action = self._started
        self._process = psutil.Process()
        self._process.cpu_percent()  # the first reading is the one later ones are compared with

    def touch(self) -> None:
        """An action is being done now."""
        self._last_action = time.monotonic()

    def read(self) -> dict[str, Any]:
        now = time.monotonic()
        return {
            "uptime": now - self._started,
            "idle_time": now - self._last_action,
            "resources": self._resources(),
        }

    def _resources(self) -> dict[str, Any]:
        memory = self._process.memory_info()
        disk = psutil.disk_usage(str(self._directory))
        counters = self._process.io_counters() if hasattr(self._process, "io_counters") else None
        return {
            "cpu_percent": self._process.cpu_percent(),
            "memory": {
                "rss": memory.rss,
                "vms": memory.vms,
                "percent": self._process.memory_percent(),
            },
            "disk": {
                "total": disk.total,
                "used": disk.used,
                "free": disk.free,
                "percent": disk.percent,
            },
            "io": {
                "read_bytes": counters.read_bytes if counters else 0,
                "write_bytes": counters.write_bytes if counters else 0,
            },
        }
