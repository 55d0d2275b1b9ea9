"""A lock file that a process holds for as long as it lives.

The kernel releases the lock when its holder ends for any reason, so a process that reuses the
holder's PID is never mistaken for it.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from typing import Final

_FLOCK: Final = "hhqqi4x"


def acquire(path: Path) -> int | None:
    """A descriptor that holds the lock on `path`, created if missing. None if another process holds
    the lock.

    A process that inherits the descriptor holds the lock too.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _lock(fcntl.F_WRLCK))
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock. This call does not change the lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _lock(fcntl.F_WRLCK))
    finally:
        os.close(descriptor)
    kind: int = struct.unpack(_FLOCK, answer)[0]
    return kind != fcntl.F_UNLCK


def _lock(kind: int) -> bytes:
    """A `struct flock` over the whole file."""
    return struct.pack(_FLOCK, kind, os.SEEK_SET, 0, 0, 0)
