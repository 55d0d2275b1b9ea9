"""Reads and atomically replaces whole files.

A new version is written beside the old one and renamed over it, so whoever reads sees the one or
the other. What the old file was stays: mode, owner, attributes. Three kinds of file cannot be
replaced that way and are rewritten in place instead: one with several hard links (they would come
apart), one whose owner we could not give the new one, one in a directory that takes no new file or
is itself a mount point. Room on the disk is reserved before the first byte of those changes.
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
    """A file's content at one moment, with the facts that tell whether it changed since."""

    data: bytes
    found: os.stat_result


class Storage:
    """Reads and replaces files at places. May be used by many threads.

    Writers in this process take turns by `turn`; against others there is the rename, and with
    `over` the check that the file is still the version that was read.
    """

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self._locks = KeyedLocks()

    @contextmanager
    def turn(self, place: PinnedPath) -> Iterator[None]:
        """Keep every other writer of this place waiting, from reading the old version on."""
        with self._locks.hold(place.key):
            yield

    @contextmanager
    def reading(self, place: PinnedPath) -> Iterator[tuple[int, os.stat_result]]:
        """Descriptor and `stat` of the file; raises an error if it is not a regular file."""
        descriptor = place.open(os.O_RDONLY)
        try:
            found = os.fstat(descriptor)
            ensure_regular(found, place.shown)
            yield descriptor, found
        finally:
            os.close(descriptor)

    def load(self, place: PinnedPath, *, limit: int, advice: str) -> FileVersion:
        """The whole file. Raises `FileTooLarge` past `limit` bytes, with `advice` what to do."""
        with self.reading(place) as (descriptor, found), self._alone(found):
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
        """Make `content` what the file holds, or leave it as it was.

        Raises `EditConflict` when it is no longer the version `over`, `PathExists` when it must be
        new and is not. Nothing is left beside it when this fails.
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
        with self._alone(old.found):
            _ensure_unchanged(place, os.fstat(old.descriptor), over)
            staged.copy_into(old.descriptor)

    @contextmanager
    def _alone(self, found: os.stat_result) -> Iterator[None]:
        """Files with several names are rewritten in place: their readers must wait meanwhile."""
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
    """The next `count` bytes or as many as there are; one call when `expected` was right."""
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
