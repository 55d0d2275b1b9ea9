"""Hides the parts of `/proc` that show the whole machine, before a session runs anything.

Bubblewrap leaves these as they are for its purposes. It could be told to cover them, but reads all
mounts anew for each thing it is told.
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
"""Users may not write or read most of it anyway; a session need not rely on that."""


def cover_proc() -> None:
    """Hide them in the present mount namespace. Needs the rights over it."""
    for name in READ_ONLY:
        path = Path("/proc", name)
        if path.exists():
            _cover(path, by=path)
    for name in HIDDEN:
        path = Path("/proc", name)
        if path.is_dir():
            bind_mounts.mount_empty(path)
        elif path.exists():
            # Mounted without devices, so it cannot even be opened.
            _cover(path, by=Path("/dev/null"))


def _cover(path: Path, *, by: Path) -> None:
    source = os.open(by, os.O_PATH | os.O_CLOEXEC)
    try:
        tree = bind_mounts.clone(source, read_only=True)
    finally:
        os.close(source)
    try:
        bind_mounts.attach(tree, path)
    finally:
        os.close(tree)
