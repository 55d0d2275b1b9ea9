"""Stores contents under their SHA-256, one file each: `blobs/ab/cdef…`.

A content is written to a batch directory and then renamed. So a file below `blobs/` is complete
even if the process is killed. A batch directory that remains shows that a process was killed. After
a power failure a content may be damaged; its digest then does not match.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bascule.core.errors import StorageFailed

from .versions import Content

_BLOCK_BYTES = 1 << 20
_ZEROS = bytes(_BLOCK_BYTES)
_NEW_NAME = "new"
"""Name of the file with a content that is being written."""
_DISK_BLOCK_BYTES = 4096
"""Bytes of disk space that even a small file uses."""


class Blobs:
    """The contents of a store. The database records which contents are in use."""

    def __init__(self, directory: Path) -> None:
        self._blobs = directory / "blobs"
        self._batches = directory / "tmp"
        for each in (self._blobs, self._batches):
            each.mkdir(parents=True, exist_ok=True)

    def open(self, content: Content) -> int:
        """A descriptor for reading. Raises `StorageFailed` if the blob is missing."""
        try:
            return os.open(self._path(content), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise StorageFailed(f"The store has lost content {content.hex()}") from None

    def read(self, content: Content) -> Iterator[bytes]:
        """The content in pieces. Raises `StorageFailed` at the end if the content is damaged."""
        descriptor = self.open(content)
        digest = hashlib.sha256()
        try:
            while piece := os.read(descriptor, _BLOCK_BYTES):
                digest.update(piece)
                yield piece
        finally:
            os.close(descriptor)
        if digest.digest() != content:
            raise StorageFailed(f"The store's content {content.hex()} is damaged")

    def remove(self, contents: Iterable[Content]) -> None:
        for content in contents:
            with suppress(FileNotFoundError):
                self._path(content).unlink()

    @contextmanager
    def batch(self) -> Iterator[BlobBatch]:
        """Open a batch to write contents. They are stored if the `with` block ends without an
        error.

        The caller then records the contents in the database, and calls `forget` on the batch.
        """
        batch = BlobBatch(self._batches / secrets.token_hex(8), self._path)
        try:
            yield batch
        except BaseException:
            batch.discard()
            raise
        batch.publish()

    def has_leftovers(self) -> bool:
        """Whether a process was killed while it wrote contents."""
        return any(self._batches.iterdir())

    def sweep(self, in_use: set[Content]) -> None:
        """Remove the files that killed processes left. Callers ensure that no process writes
        meanwhile."""
        for path in self._blobs.glob("*/*"):
            if bytes.fromhex(path.parent.name + path.name) not in in_use:
                path.unlink()
        for directory in list(self._batches.iterdir()):
            for path in directory.iterdir():
                path.unlink()
            directory.rmdir()

    def _path(self, content: Content) -> Path:
        digits = content.hex()
        return self._blobs / digits[:2] / digits[2:]


class BlobBatch:
    """Contents that are being added to the store. The first content creates the batch directory."""

    def __init__(self, directory: Path, path_of: Callable[[Content], Path]) -> None:
        self._directory = directory
        self._path_of = path_of
        self._is_made = False
        self.sizes: dict[Content, int] = {}
        """Disk space in bytes of each added content."""
        self.total = 0

    def add(self, pieces: Iterable[bytes]) -> Content:
        """Write one content. Blocks of zeros become holes."""
        path = self._directory / _NEW_NAME
        if not self._is_made:
            self._directory.mkdir()
            self._is_made = True
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        digest = hashlib.sha256()
        try:
            write_sparse(descriptor, _update_digest(pieces, digest))
            # Starts writing to the disk without waiting. A killed process loses nothing either
            # way, and `fsync` for each file would delay a command by seconds.
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            used = max(os.fstat(descriptor).st_blocks * 512, _DISK_BLOCK_BYTES)
        finally:
            os.close(descriptor)
        content = digest.digest()
        path.rename(self._directory / content.hex())
        self.total += 0 if content in self.sizes else used
        self.sizes[content] = used
        return content

    def publish(self) -> None:
        for content in self.sizes:
            target = self._path_of(content)
            target.parent.mkdir(exist_ok=True)
            (self._directory / content.hex()).rename(target)

    def forget(self) -> None:
        """Remove the batch directory. Callers first record the contents in the database."""
        if self._is_made:
            # The file of a content that could not be written.
            (self._directory / _NEW_NAME).unlink(missing_ok=True)
            self._directory.rmdir()

    def discard(self) -> None:
        if not self._is_made:
            return
        for path in self._directory.iterdir():
            path.unlink()
        self._directory.rmdir()


def write_sparse(descriptor: int, pieces: Iterable[bytes]) -> None:
    """Write pieces to an empty file, with holes instead of blocks of zeros."""
    size = 0
    for piece in pieces:
        if piece == _ZEROS[: len(piece)]:
            os.lseek(descriptor, len(piece), os.SEEK_CUR)
        else:
            _write_all(descriptor, piece)
        size += len(piece)
    os.ftruncate(descriptor, size)  # sets the size if the file ends with a hole


def read_pieces(descriptor: int) -> Iterator[bytes]:
    while piece := os.read(descriptor, _BLOCK_BYTES):
        yield piece


def _write_all(descriptor: int, piece: bytes) -> None:
    view = memoryview(piece)
    while view:
        view = view[os.write(descriptor, view) :]


def _update_digest(pieces: Iterable[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    for piece in pieces:
        digest.update(piece)
        yield piece
