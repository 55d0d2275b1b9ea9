"""Files as whole versions: read one, put another in its place, never leave half of one.

A new version is written beside the old one and renamed over it, so whoever reads sees the one or
the other. What the old file was stays: mode, owner, attributes. Three kinds of file cannot be
replaced that way and are rewritten in place instead: one with several hard links (they would come
apart), one whose owner we could not give the new one, one in a directory that takes no new file or
is itself a mount point. Room on the disk is reserved before the first byte of those changes.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from bascule.core.errors import EditConflict, FileTooLarge, PathExists

from .locks import KeyedLocks
from .paths import Owner, Paths, Place, ensure_regular

NEW_FILE_MODE = 0o664
_BLOCK = 1 << 20
_NO_ROOM_BESIDE = (errno.EACCES, errno.EPERM, errno.EROFS)
_NOT_REPLACEABLE = (errno.EBUSY, errno.EXDEV)
_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)


@dataclass(frozen=True, slots=True)
class Version:
    """What a file held at one moment, and by which it is known whether it changed since."""

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
    def turn(self, place: Place) -> Iterator[None]:
        """Keep every other writer of this place waiting, from reading the old version on."""
        with self._locks.hold(place.key):
            yield

    @contextmanager
    def reading(self, place: Place) -> Iterator[tuple[int, os.stat_result]]:
        """The descriptor of the file there and what it is; refuses what is not a file."""
        descriptor = place.open(os.O_RDONLY)
        try:
            found = os.fstat(descriptor)
            ensure_regular(found, place.shown)
            yield descriptor, found
        finally:
            os.close(descriptor)

    def load(self, place: Place, *, limit: int, advice: str) -> Version:
        """The whole file. Raises `FileTooLarge` past `limit` bytes, with `advice` what to do."""
        with self.reading(place) as (descriptor, found), self._alone(found):
            ensure_fits(found.st_size, limit, place.shown, advice)
            data = read_up_to(descriptor, limit + 1, expected=found.st_size)
            ensure_fits(len(data), limit, place.shown, advice)
            return Version(data, found)

    def replace(
        self,
        place: Place,
        content: bytes | Iterable[bytes],
        *,
        over: Version | None = None,
        must_be_new: bool = False,
    ) -> None:
        """Make `content` what the file holds, or leave it as it was.

        Raises `EditConflict` when it is no longer the version `over`, `PathExists` when it must be
        new and is not. Nothing is left beside it when this fails.
        """
        with ExitStack() as held:
            old = _open_old(place, held)
            if old is not None and must_be_new:
                raise PathExists(f"{place.shown} exists already")
            _ensure_unchanged(place, old.found if old else None, over)
            staged = held.enter_context(_Staged.beside(place, old))
            staged.fill([content] if isinstance(content, bytes) else content)
            if old is None:
                staged.give_to(self.paths.owner)
                staged.publish(place, must_be_new=must_be_new)
            elif old.found.st_nlink > 1 or not staged.take_after(old):
                self._rewrite(old, staged)
            else:
                _ensure_unchanged(place, place.stat(), over)
                self._swap(place, old, staged)

    def _swap(self, place: Place, old: _Old, staged: _Staged) -> None:
        try:
            staged.rename_to(place)
        except OSError as error:
            if old.descriptor is None or error.errno not in _NOT_REPLACEABLE:
                raise
            self._rewrite(old, staged)

    def _rewrite(self, old: _Old, staged: _Staged) -> None:
        with self._alone(old.found):
            staged.copy_into(old)

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


@dataclass(frozen=True, slots=True)
class _Old:
    """The file about to be replaced."""

    descriptor: int | None
    """Open for writing; None for a program that is running, which can only be replaced."""
    found: os.stat_result


def _open_old(place: Place, held: ExitStack) -> _Old | None:
    """Opening it for writing asks the system whether we may, as no rename would."""
    try:
        descriptor = place.open(os.O_WRONLY)
    except FileNotFoundError:
        return None
    except OSError as error:
        found = place.stat()
        if error.errno != errno.ETXTBSY or found is None:
            raise
        return _Old(None, found)
    held.callback(os.close, descriptor)
    found = os.fstat(descriptor)
    ensure_regular(found, place.shown)
    return _Old(descriptor, found)


def _ensure_unchanged(place: Place, now: os.stat_result | None, over: Version | None) -> None:
    if over is None:
        return
    then = over.found
    if now is None or _identity(now) != _identity(then):
        raise EditConflict(f"{place.shown} was changed by someone else meanwhile; read it again")


def _identity(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


class _Staged:
    """A new version waiting beside the old one; what is not published is removed."""

    def __init__(self, descriptor: int, directory: int, name: str | None) -> None:
        self._descriptor = descriptor
        self._directory = directory
        self._name = name

    @classmethod
    @contextmanager
    def beside(cls, place: Place, old: _Old | None) -> Iterator[_Staged]:
        name = f".bascule-{secrets.token_hex(6)}.tmp"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        # Until it has the mode of the old file, nobody else may read what is written into it.
        mode = NEW_FILE_MODE if old is None else 0o600
        try:
            staged = cls(os.open(name, flags, mode, dir_fd=place.directory), place.directory, name)
        except OSError as error:
            if old is None or old.descriptor is None or error.errno not in _NO_ROOM_BESIDE:
                raise
            with tempfile.TemporaryFile() as elsewhere:
                yield cls(elsewhere.fileno(), place.directory, None)
            return
        try:
            yield staged
        finally:
            os.close(staged._descriptor)
            staged._discard()

    def fill(self, content: Iterable[bytes]) -> None:
        for piece in content:
            write_all(self._descriptor, piece)

    def give_to(self, owner: Owner | None) -> None:
        if owner is not None:
            os.fchown(self._descriptor, owner.uid, owner.gid)

    def take_after(self, old: _Old) -> bool:
        """Become what the old file is but for the content; False when that is not ours to do."""
        if self._name is None:
            return False
        found, mine = old.found, os.fstat(self._descriptor)
        if (mine.st_uid, mine.st_gid) != (found.st_uid, found.st_gid):
            try:
                os.fchown(self._descriptor, found.st_uid, found.st_gid)
            except PermissionError:
                if old.descriptor is not None:
                    return False
        os.fchmod(self._descriptor, stat.S_IMODE(found.st_mode))
        if old.descriptor is not None:
            _copy_attributes(old.descriptor, self._descriptor)
        return True

    def publish(self, place: Place, *, must_be_new: bool) -> None:
        if must_be_new and self._link_to(place):
            return
        self.rename_to(place)

    def rename_to(self, place: Place) -> None:
        assert self._name is not None
        os.rename(self._name, place.name, src_dir_fd=self._directory, dst_dir_fd=place.directory)
        self._name = None

    def _link_to(self, place: Place) -> bool:
        """A link, unlike a rename, fails when something is there; some file systems have none."""
        assert self._name is not None
        try:
            os.link(
                self._name,
                place.name,
                src_dir_fd=self._directory,
                dst_dir_fd=place.directory,
                follow_symlinks=False,
            )
        except OSError as error:
            if error.errno in _NO_HARD_LINKS:
                return False
            raise
        return True

    def copy_into(self, old: _Old) -> None:
        """Rewrite the old file in place. No room for it is noticed before anything is changed."""
        target, size = old.descriptor, os.fstat(self._descriptor).st_size
        assert target is not None
        before = os.fstat(target).st_size
        if size > before:
            try:
                os.posix_fallocate(target, before, size - before)
            except OSError:
                os.ftruncate(target, before)
                raise
        done = 0
        while done < size:
            done += os.sendfile(target, self._descriptor, done, size - done)
        os.ftruncate(target, size)

    def _discard(self) -> None:
        if self._name is not None:
            with suppress(FileNotFoundError):
                os.unlink(self._name, dir_fd=self._directory)


def write_all(descriptor: int, data: bytes) -> None:
    """A full disk may take a part of what is written before it says so."""
    written = os.write(descriptor, data)
    while written < len(data):
        written += os.write(descriptor, memoryview(data)[written:])


def _copy_attributes(source: int, target: int) -> None:
    """Access lists, labels and the user's own attributes, as far as we may."""
    try:
        names = os.listxattr(source)
    except OSError:
        return
    for name in names:
        with suppress(OSError):
            os.setxattr(target, name, os.getxattr(source, name))
