"""Where and with what it was measured."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from pathlib import Path


def facts() -> dict[str, str]:
    return {
        "processor": f"{os.cpu_count()} cores, {_first_value('/proc/cpuinfo', 'model name')}",
        "memory": f"{int(_first_value('/proc/meminfo', 'MemTotal').split()[0]) / 2**20:.1f} GiB",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "bash": _first_line("bash", "--version"),
        "tmux": _first_line("tmux", "-V"),
    }


def commit(root: Path) -> str:
    """Which state of ours was measured; code that is being edited is said to be."""
    found = _first_line("git", "-C", str(root), "rev-parse", "--short", "HEAD")
    changed = _first_line("git", "-C", str(root), "status", "--porcelain", "--", "src")
    return f"{found} with changes" if changed else found


def now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def load() -> str:
    """Load averages of 1, 5 and 15 minutes."""
    return ", ".join(f"{value:.2f}" for value in os.getloadavg())


def _first_value(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return "unknown"


def _first_line(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        return "missing"
    return next(iter(done.stdout.splitlines()), "")
