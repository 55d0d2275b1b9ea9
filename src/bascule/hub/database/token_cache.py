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

_MOST: Final = 4096
_HEAD: Final = 48
"""Bytes that say how far the log goes: counters, salts and a checksum, as SQLite documents it."""
_LATEST: Final = 1.0
"""Seconds after which a database that cannot tell is asked again."""


class ChangeDetector(Protocol):
    """Detects whether a database has changed: its `state` is then a different value."""

    def state(self) -> object: ...

    def wrote(self) -> None:
        """This process has written to the database."""
        ...

    def close(self) -> None:
        """Close it, after all our connections to the database. Blocks."""
        ...


def change_detector(file: str | None) -> ChangeDetector:
    """The detector for a SQLite file, or for a database server if `file` is None. Blocks."""
    if file is not None:
        with contextlib.suppress(FileNotFoundError):  # it has no write-ahead log
            return SqliteChangeDetector(file)
    return TimedChangeDetector()


class SqliteChangeDetector:
    """Exact and without queries: reads the header of the write-ahead log's index in memory, which
    every commit of any process changes.

    SQLite's connections share that index as a file; ours is only held open, so that it stays.
    Its locks are the process's: to close any descriptor of the file ends those of all connections,
    and the next process would take itself for the first and empty the index under our hands. So
    nothing is closed before `close`, when whoever had connections has closed them.
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
        return self._index[:_HEAD]

    def wrote(self) -> None:
        """No effect: the commit itself changes the state."""

    def close(self) -> None:
        self._connection.close()
        self._index.close()
        self._file.close()


class TimedChangeDetector:
    """For a database server: own writes count at once, writes of others after some time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked = clock()
        self._number = 0

    def state(self) -> object:
        if self._clock() - self._asked > _LATEST:
            self.wrote()
        return self._number

    def wrote(self) -> None:
        self._asked = self._clock()
        self._number += 1

    def close(self) -> None:
        """No effect."""


class TokenCache:
    """Token rows found since the database last changed."""

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
        if len(self._rows) >= _MOST:
            self._rows.clear()
        self._rows[row.hash] = row

    def forget(self) -> None:
        self._changes.wrote()

    def close(self) -> None:
        self._changes.close()
