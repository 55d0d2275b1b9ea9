"""A cache of token rows, valid as long as the database has not changed."""

from __future__ import annotations

import contextlib
import mmap
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from bascule.hub.identity import TokenRow

_MAX_ENTRIES: Final = 4096
_HEADER_BYTES: Final = 48
"""Bytes of the index header that describe the log: counters, salts and a checksum (SQLite docs)."""
_LIFETIME: Final = 1.0
"""Seconds after which the cache expires if the database cannot report changes."""


class ChangeDetector(Protocol):
    """Detects whether a database has changed: every change gives `state` a new value."""

    def state(self) -> object: ...

    def report_write(self) -> None:
        """Report that this process has written to the database."""
        ...

    def close(self) -> None:
        """Close the detector. This blocks.

        All connections of this process must be closed before.
        """
        ...


def change_detector(file: str | None) -> ChangeDetector:
    """The detector for a SQLite file, or for a database server if `file` is None.

    This function blocks.
    """
    if file is not None:
        with contextlib.suppress(FileNotFoundError):  # the database has no write-ahead log
            return SqliteChangeDetector(file)
    return TimedChangeDetector()


class SqliteChangeDetector:
    """Notices every change at once, without queries: it maps the index of the write-ahead log (the
    `-shm` file) and reads the header, which every commit of any process changes.

    An open connection keeps SQLite from deleting that file. POSIX locks belong to the process:
    closing any descriptor of the file releases the locks of all connections of the process.
    Another process would then consider itself the first user and reset the index. So the descriptor
    stays open until `close`, when all connections are closed.
    """

    def __init__(self, file: str) -> None:
        self._connection = sqlite3.connect(file, check_same_thread=False)
        try:
            self._connection.execute("SELECT 1 FROM sqlite_master").fetchall()
            self._file = Path(f"{file}-shm").open("rb")  # noqa: SIM115  # until `close`
            self._index = mmap.mmap(self._file.fileno(), 0, prot=mmap.PROT_READ)
        except BaseException:
            self._connection.close()
            raise

    def state(self) -> object:
        return self._index[:_HEADER_BYTES]

    def report_write(self) -> None:
        """No effect: the commit itself changes the state."""

    def close(self) -> None:
        self._connection.close()
        self._index.close()
        self._file.close()


class TimedChangeDetector:
    """For a database server: notices writes of this process at once, and assumes a write of another
    process whenever `_LIFETIME` has passed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._renewed_at = clock()
        self._number = 0

    def state(self) -> object:
        if self._clock() - self._renewed_at > _LIFETIME:
            self.report_write()
        return self._number

    def report_write(self) -> None:
        self._renewed_at = self._clock()
        self._number += 1

    def close(self) -> None:
        """No effect."""


class TokenCache:
    """Token rows that were read since the database last changed."""

    def __init__(self, changes: ChangeDetector) -> None:
        self._changes = changes
        self._state = changes.state()
        self._rows: dict[str, TokenRow] = {}

    def recall(self, token_hash: str) -> tuple[TokenRow | None, object]:
        """The cached row, if any, and the state of the database, to pass to `keep`."""
        state = self._changes.state()
        if state != self._state:
            self._rows.clear()
            self._state = state
        return self._rows.get(token_hash), state

    def keep(self, row: TokenRow, state: object) -> None:
        """Cache a row, unless the database has changed since `recall`."""
        if state != self._state:
            return
        if len(self._rows) >= _MAX_ENTRIES:
            self._rows.clear()
        self._rows[row.hash] = row

    def forget(self) -> None:
        """Clear the cache at its next use, because this process has changed tokens."""
        self._changes.report_write()

    def close(self) -> None:
        self._changes.close()
