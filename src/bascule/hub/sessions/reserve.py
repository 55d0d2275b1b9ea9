"""Disk space that the hub reserves, so that sessions can be removed when the disk is full."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

_RESERVE_BYTES: Final = 8 << 20


class DiskReserve:
    """A file that only occupies disk space. All methods block."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def restore(self) -> None:
        """Create the file again if the disk has plenty of space."""
        if self._path.exists() or shutil.disk_usage(self._path.parent).free < 4 * _RESERVE_BYTES:
            return
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, _RESERVE_BYTES)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            self._path.unlink()
        finally:
            os.close(descriptor)

    def free(self) -> bool:
        """Delete the file; returns whether it existed."""
        try:
            self._path.unlink()
        except FileNotFoundError:
            return False
        logger.warning("the disk is full; the hub has released its reserved space")
        return True
