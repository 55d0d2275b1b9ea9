"""What files held before they were edited, newest last, bounded in depth and in memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable


class History:
    """Versions to go back to. When all together pass `limit` bytes the oldest is forgotten."""

    def __init__(self, *, depth: int, limit: int) -> None:
        self._depth = depth
        self._limit = limit
        self._lock = threading.Lock()
        self._versions: deque[tuple[Hashable, bytes]] = deque()
        self._size = 0

    def push(self, key: Hashable, data: bytes) -> None:
        with self._lock:
            mine = [each for each in self._versions if each[0] == key]
            if len(mine) == self._depth:
                self._forget(mine[0])
            self._versions.append((key, data))
            self._size += len(data)
            while self._size > self._limit:
                self._forget(self._versions[0])

    def last(self, key: Hashable) -> bytes | None:
        with self._lock:
            return next((data for each, data in reversed(self._versions) if each == key), None)

    def drop_last(self, key: Hashable) -> None:
        with self._lock:
            for index in reversed(range(len(self._versions))):
                if self._versions[index][0] == key:
                    self._size -= len(self._versions[index][1])
                    del self._versions[index]
                    return

    def _forget(self, version: tuple[Hashable, bytes]) -> None:
        self._versions.remove(version)
        self._size -= len(version[1])
