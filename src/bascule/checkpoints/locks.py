"""Locks with which processes share one store, and detect that one of them was killed."""

from __future__ import annotations

import fcntl
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


class StoreLock:
    """One operation on a store at a time, over all threads and processes. Not reentrant."""

    def __init__(self, file: Path) -> None:
        # `flock` does not exclude other threads that use the same descriptor.
        self._threads = threading.Lock()
        self._descriptor = os.open(file, _FLAGS, 0o600)

    def close(self) -> None:
        os.close(self._descriptor)

    @contextmanager
    def held(self) -> Iterator[None]:
        with self._threads:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)


class Owners:
    """Reports which processes that began a checkpoint are still alive.

    Each process holds a lock on its own file. The kernel releases the lock when the process ends,
    also in another PID namespace and after `kill -9`.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(exist_ok=True)
        self.name = secrets.token_hex(8)
        self._descriptor = os.open(directory / self.name, _FLAGS, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def is_alive(self, owner: str) -> bool:
        if owner == self.name:
            return True
        try:
            descriptor = os.open(self._directory / owner, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        with suppress(FileNotFoundError):
            (self._directory / owner).unlink()
        return False

    def sweep(self) -> None:
        """Remove the files of processes that were killed. The caller holds the store's lock."""
        for path in self._directory.iterdir():
            self.is_alive(path.name)

    def close(self) -> None:
        with suppress(FileNotFoundError):
            (self._directory / self.name).unlink()
        os.close(self._descriptor)
