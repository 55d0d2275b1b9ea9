"""Hides the parts of `/proc` that show the whole machine, before a session runs anything.

Bubblewrap does not hide them by itself. It could mount something over each of them, but it reads
the list of all mounts again for each mount.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from . import bind_mounts

READ_ONLY: Final = ("bus", "fs", "irq", "sys")
HIDDEN: Final = (
    *("acpi", "asound", "interrupts", "kcore", "key-users", "keys", "kmsg", "latency_stats"),
    *("sched_debug", "scsi", "sysrq-trigger", "timer_list", "timer_stats"),
)
"""File permissions protect most of these anyway; sessions do not have to rely on that."""


def cover_proc() -> None:
    """Hide them in the current mount namespace. Needs rights over it."""
    for name in READ_ONLY:
        path = Path("/proc", name)
        if path.exists():
            _mount_over(path, by=path)
    for name in HIDDEN:
        path = Path("/proc", name)
        if path.is_dir():
            bind_mounts.mount_empty(path)
        elif path.exists():
            # Mounted without devices, so it cannot even be opened.
            _mount_over(path, by=Path("/dev/null"))


def _mount_over(path: Path, *, by: Path) -> None:
    source = os.open(by, os.O_PATH | os.O_CLOEXEC)
    try:
        tree = bind_mounts.clone(source, read_only=True)
    finally:
        os.close(source)
    try:
        bind_mounts.attach(tree, path)
    finally:
        os.close(tree)
