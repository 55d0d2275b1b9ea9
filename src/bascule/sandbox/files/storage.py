"""Reads and atomically replaces whole files.

A new version is written next to the old file and renamed over it, so readers see either the old or
the new version. The new file gets the mode, owner and attributes of the old one. Some files cannot
be replaced by a rename and are rewritten in place, after space on the disk has been reserved:

- files with several hard links, which a rename would separate;
- files whose owner we cannot give to the new file;
- files in a directory in which we cannot create files, and files that are a mount point.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bascule.core.errors import EditConflict, FileTooLarge, PathExists

from .locks import KeyedLocks
from .paths import Paths, PinnedPath, ensure_regular
from .staging import ReplacedFile, StagedFile, opened_old

_BLOCK_BYTES = 1 << 20
_NOT_REPLACEABLE = (errno.EBUSY, errno.EXDEV)
"""Errors of a rename over a mount point."""


@dataclass(frozen=True, slots=True)
class FileVersion:
    """A file's content at one moment, and its `stat`, which shows whether the file changed since
    then."""

    data: bytes
    file_stat: os.stat_result


class Storage:
    """Reads and replaces files. Thread-safe.

    `exclusive` serializes writers in this process. Other processes are not locked out. For them,
    files are replaced by an atomic rename, and with `over` only if the file is still the version
    that was read.
    """

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self._locks = KeyedLocks()

    @contextmanager
    def exclusive(self, pinned: PinnedPath) -> Iterator[None]:
        """Make other threads wait that want to write this file. Enter this context before you read
        the old version."""
        with self._locks.hold(pinned.key):
            yield

    @contextmanager
    def reading(self, pinned: PinnedPath) -> Iterator[tuple[int, os.stat_result]]:
        """Open the file for reading, with its `stat`. Raises if it is not a regular file."""
        descriptor = pinned.open(os.O_RDONLY)
        try:
            file_stat = os.fstat(descriptor)
            ensure_regular(file_stat, pinned.shown_path)
            yield descriptor, file_stat
        finally:
            os.close(descriptor)

    def load(self, pinned: PinnedPath, *, limit: int, advice: str) -> FileVersion:
        """Read the whole file. Above `limit` bytes, raises `FileTooLarge` with `advice`."""
        with self.reading(pinned) as (descriptor, file_stat), self._exclusive_lock(file_stat):
            ensure_fits(file_stat.st_size, limit, pinned.shown_path, advice)
            data = read_up_to(descriptor, limit + 1, expected=file_stat.st_size)
            ensure_fits(len(data), limit, pinned.shown_path, advice)
            return FileVersion(data, file_stat)

    def replace(
        self,
        pinned: PinnedPath,
        content: bytes | Iterable[bytes],
        *,
        over: FileVersion | None = None,
        must_be_new: bool = False,
    ) -> None:
        """Replace the file's content, or leave the file unchanged if this fails.

        Raises `EditConflict` if the file is no longer the version `over`, and `PathExists` if it
        must be new but exists. A failure leaves no temporary file.
        """
        with opened_old(pinned) as old:
            if old is not None and must_be_new:
                raise PathExists(f"{pinned.shown_path} exists already")
            _ensure_unchanged(pinned, old.file_stat if old else None, over)
            with StagedFile.beside(pinned, old) as staged:
                staged.fill([content] if isinstance(content, bytes) else content)
                if old is None:
                    staged.give_to(self.paths.owner)
                    staged.publish(pinned, must_be_new=must_be_new)
                elif old.is_linked or not staged.copy_metadata(old):
                    self._rewrite(pinned, old, staged, over)
                else:
                    self._swap(pinned, old, staged, over)

    def remove(self, pinned: PinnedPath) -> None:
        """Remove the file."""
        os.unlink(pinned.name, dir_fd=pinned.directory)

    def _swap(
        self, pinned: PinnedPath, old: ReplacedFile, staged: StagedFile, over: FileVersion | None
    ) -> None:
        _ensure_unchanged(pinned, pinned.stat(), over)
        try:
            staged.rename_to(pinned)
        except OSError as error:
            if old.descriptor is None or error.errno not in _NOT_REPLACEABLE:
                raise
            self._rewrite(pinned, old, staged, over)

    def _rewrite(
        self, pinned: PinnedPath, old: ReplacedFile, staged: StagedFile, over: FileVersion | None
    ) -> None:
        assert old.descriptor is not None
        with self._exclusive_lock(old.file_stat):
            _ensure_unchanged(pinned, os.fstat(old.descriptor), over)
            staged.copy_into(old.descriptor)

    @contextmanager
    def _exclusive_lock(self, file_stat: os.stat_result) -> Iterator[None]:
        """Make readers and writers of a file with several hard links wait for each other, because
        such a file is rewritten in place."""
        if file_stat.st_nlink > 1:
            with self._locks.hold((file_stat.st_dev, file_stat.st_ino)):
                yield
        else:
            yield


def ensure_fits(size: int, limit: int, shown_path: str, advice: str) -> None:
    if size > limit:
        raise FileTooLarge(
            f"{shown_path} has {size:,} bytes, past the limit of {limit:,}. {advice}", size=size
        )


def read_up_to(descriptor: int, count: int, *, expected: int = 0) -> bytes:
    """Read the next `count` bytes, or fewer at the end of the file.

    `expected`: how many bytes are probably left; a correct value saves system calls.
    """
    pieces = []
    while count > 0:
        piece = os.read(descriptor, min(count, max(expected + 1, _BLOCK_BYTES)))
        if not piece:
            break
        pieces.append(piece)
        count -= len(piece)
        expected -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _ensure_unchanged(
    pinned: PinnedPath, now: os.stat_result | None, over: FileVersion | None
) -> None:
    if over is None:
        return
    if now is None or _identity(now) != _identity(over.file_stat):
        raise EditConflict(
            f"{pinned.shown_path} was changed by someone else meanwhile; read it again"
        )


def _identity(file_stat: os.stat_result) -> tuple[int, int, int, int]:
    return file_stat.st_dev, file_stat.st_ino, file_stat.st_size, file_stat.st_mtime_ns
