"""Logs of the sandboxes' servers: one file each, readable only by the warden.

All functions block.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from bascule.core.sessions import SessionId

_MAX_LOG_BYTES: Final = 1 << 20
"""Bytes above which `trim` cuts a log."""
_TAIL_BYTES: Final = 1 << 16
"""Bytes at the end of a log that are read, and that `trim` keeps."""


class SandboxLogs:
    """Logs of bounded size.

    A session's user can take the log's descriptor from a process of the session and write anything,
    so no log is ever read in full, and large logs are cut.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def open(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)

    def tail(self, session_id: SessionId, lines: int) -> str:
        """The last lines of a log; empty if there is no log."""
        try:
            text = _end(self.directory / session_id).decode(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def trim(self) -> None:
        """Cut large logs, keeping their end. Writers append, so this does not disturb them."""
        for each in self.directory.iterdir():
            with suppress(FileNotFoundError):  # its session was removed just now
                _trim(each)

    def used(self, session_id: str) -> int:
        """Bytes of the session's log on the disk."""
        with suppress(FileNotFoundError):
            return (self.directory / session_id).lstat().st_blocks * 512
        return 0

    def forget(self, session_id: str) -> None:
        (self.directory / session_id).unlink(missing_ok=True)


def _trim(path: Path) -> None:
    if path.stat().st_size > _MAX_LOG_BYTES:
        last = _end(path)
        os.truncate(path, 0)
        with path.open("r+b") as file:
            file.seek(0, os.SEEK_END)
            file.write(last)


def _end(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
        return file.read(_TAIL_BYTES)
