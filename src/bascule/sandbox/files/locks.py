"""Locks by key, created on first use and dropped when nobody holds them."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class KeyedLocks:
    """A lock per key: threads block each other only if they use the same key."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held: dict[Hashable, tuple[threading.Lock, int]] = {}

    @contextmanager
    def hold(self, key: Hashable) -> Iterator[None]:
        with self._guard:
            lock, users = self._held.get(key) or (threading.Lock(), 0)
            self._held[key] = lock, users + 1
        try:
            with lock:
                yield
        finally:
            with self._guard:
                lock, users = self._held[key]
                if users == 1:
                    del self._held[key]
                else:
                    self._held[key] = lock, users - 1
