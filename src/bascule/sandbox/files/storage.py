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

_BLOCK = 1 << 20
_NOT_REPLACEABLE = (errno.EBUSY, errno.EXDEV)


@dataclass(frozen=True, slots=True)
class FileVersion:
    """A file's content at one moment, and its `stat`, which shows whether it changed since."""

    data: bytes
    found: os.stat_result


class Storage:
    """Reads and replaces files at places. Thread-safe.

    `turn` serializes writers in this process. Against other processes there is the atomic rename
    and, with `over`, the check that the file is still the version that was read.
    """

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self._locks = KeyedLocks()

    @contextmanager
    def turn(self, place: PinnedPath) -> Iterator[None]:
        """Block other writers of this place. Enter it before reading the old version."""
        with self._locks.hold(place.key):
            yield

    @contextmanager
    def reading(self, place: PinnedPath) -> Iterator[tuple[int, os.stat_result]]:
        """Open the file for reading, with its `stat`. Raises if it is not a regular file."""
        descriptor = place.open(os.O_RDONLY)
        try:
            found = os.fstat(descriptor)
            ensure_regular(found, place.shown)
            yield descriptor, found
        finally:
            os.close(descriptor)

    def load(self, place: PinnedPath, *, limit: int, advice: str) -> FileVersion:
        """Read the whole file. Above `limit` bytes, raises `FileTooLarge` with `advice`."""
        with self.reading(place) as (descriptor, found), self._exclusive_lock(found):
            ensure_fits(found.st_size, limit, place.shown, advice)
            data = read_up_to(descriptor, limit + 1, expected=found.st_size)
            ensure_fits(len(data), limit, place.shown, advice)
            return FileVersion(data, found)

    def replace(
        self,
        place: PinnedPath,
        content: bytes | Iterable[bytes],
        *,
        over: FileVersion | None = None,
        must_be_new: bool = False,
    ) -> None:
        """Replace the file's content, or leave the file unchanged if this fails.

        Raises `EditConflict` if the file is no longer the version `over`, and `PathExists` if it
        must be new but exists. A failure leaves no temporary file.
        """
        with opened_old(place) as old:
            if old is not None and must_be_new:
                raise PathExists(f"{place.shown} exists already")
            _ensure_unchanged(place, old.found if old else None, over)
            with StagedFile.beside(place, old) as staged:
                staged.fill([content] if isinstance(content, bytes) else content)
                if old is None:
                    staged.give_to(self.paths.owner)
                    staged.publish(place, must_be_new=must_be_new)
                elif old.is_linked or not staged.take_after(old):
                    self._rewrite(place, old, staged, over)
                else:
                    self._swap(place, old, staged, over)

    def _swap(
        self, place: PinnedPath, old: ReplacedFile, staged: StagedFile, over: FileVersion | None
    ) -> None:
        _ensure_unchanged(place, place.stat(), over)
        try:
            staged.rename_to(place)
        except OSError as error:
            if old.descriptor is None or error.errno not in _NOT_REPLACEABLE:
                raise
            self._rewrite(place, old, staged, over)

    def _rewrite(
        self, place: PinnedPath, old: ReplacedFile, staged: StagedFile, over: FileVersion | None
    ) -> None:
        assert old.descriptor is not None
        with self._exclusive_lock(old.found):
            _ensure_unchanged(place, os.fstat(old.descriptor), over)
            staged.copy_into(old.descriptor)

    @contextmanager
    def _exclusive_lock(self, found: os.stat_result) -> Iterator[None]:
        """Block readers of a file with several hard links, because it is rewritten in place."""
        if found.st_nlink > 1:
            with self._locks.hold((found.st_dev, found.st_ino)):
                yield
        else:
            yield


def ensure_fits(size: int, limit: int, shown: str, advice: str) -> None:
    if size > limit:
        raise FileTooLarge(
            f"{shown} has {size:,} bytes, past the limit of {limit:,}. {advice}", size=size
        )


def read_up_to(descriptor: int, count: int, *, expected: int = 0) -> bytes:
    """Read the next `count` bytes, or as many as there are. `expected` saves system calls."""
    pieces = []
    while count > 0:
        piece = os.read(descriptor, min(count, max(expected + 1, _BLOCK)))
        if not piece:
            break
        pieces.append(piece)
        count -= len(piece)
        expected -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _ensure_unchanged(
    place: PinnedPath, now: os.stat_result | None, over: FileVersion | None
) -> None:
    if over is None:
        return
    then = over.found
    if now is None or _identity(now) != _identity(then):
        raise EditConflict(f"{place.shown} was changed by someone else meanwhile; read it again")


def _identity(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
