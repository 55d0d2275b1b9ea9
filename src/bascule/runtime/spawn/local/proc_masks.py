"""Hides the parts of `/proc` that show the whole machine, before a session runs anything.

Bubblewrap does not hide them by itself. Its option to mount something over each of them would be
slow, because bubblewrap reads the list of all mounts again for each mount.
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
"""File permissions protect most of these files too, but isolation should not depend on them."""


def cover_proc() -> None:
    """Hide these parts in the current mount namespace. Needs rights over this namespace."""
    for name in READ_ONLY:
        path = Path("/proc", name)
        if path.exists():
            _mount_over(path, by=path)
    for name in HIDDEN:
        path = Path("/proc", name)
        if path.is_dir():
            bind_mounts.mount_empty(path)
        elif path.exists():
            # Mounted without devices, so the file cannot even be opened.
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
