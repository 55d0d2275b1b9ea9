"""The edits that can be undone, bounded in number per file and in memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecordedEdit:
    """One edit: the file's content before and after."""

    before: bytes
    after: bytes

    @property
    def size(self) -> int:
        return len(self.before) + len(self.after)


class EditHistory:
    """Edits that can be undone: at most `depth` per file and `limit` bytes in total.

    Beyond these limits, the oldest edit is dropped.
    """

    def __init__(self, *, depth: int, limit: int) -> None:
        self._depth = depth
        self._limit = limit
        self._lock = threading.Lock()
        self._versions: deque[tuple[Hashable, RecordedEdit]] = deque()
        """Key of the file and edit, oldest first."""
        self._size = 0

    def push(self, key: Hashable, edit: RecordedEdit) -> None:
        with self._lock:
            of_file = [version for version in self._versions if version[0] == key]
            if len(of_file) == self._depth:
                self._forget(of_file[0])
            self._versions.append((key, edit))
            self._size += edit.size
            while self._size > self._limit:
                self._forget(self._versions[0])

    def last(self, key: Hashable) -> RecordedEdit | None:
        with self._lock:
            return next((edit for owner, edit in reversed(self._versions) if owner == key), None)

    def drop_last(self, key: Hashable) -> None:
        with self._lock:
            for index in reversed(range(len(self._versions))):
                owner, edit = self._versions[index]
                if owner == key:
                    self._size -= edit.size
                    del self._versions[index]
                    return

    def _forget(self, version: tuple[Hashable, RecordedEdit]) -> None:
        self._versions.remove(version)
        _, edit = version
        self._size -= edit.size
