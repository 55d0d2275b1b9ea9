"""Writes a new version of a file next to the old one and publishes it when it is complete."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from .paths import FileOwner, PinnedPath, ensure_regular

NEW_FILE_MODE = 0o664
_NO_ROOM_BESIDE = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)


@dataclass(frozen=True, slots=True)
class ReplacedFile:
    """The file about to be replaced."""

    descriptor: int | None
    """Open for writing. None for the file of a running program, which allows only a rename."""
    file_stat: os.stat_result

    @property
    def is_linked(self) -> bool:
        """Whether the file is writable and has other hard links, which a rename would separate."""
        return self.descriptor is not None and self.file_stat.st_nlink > 1


@contextmanager
def opened_old(pinned: PinnedPath) -> Iterator[ReplacedFile | None]:
    """Open the existing file for writing; None if the file does not exist.

    Opening for writing checks the file's permissions, which a rename would not check.
    """
    descriptor, file_stat = _open_for_writing(pinned)
    try:
        if file_stat is not None:
            ensure_regular(file_stat, pinned.shown_path)
        yield None if file_stat is None else ReplacedFile(descriptor, file_stat)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _open_for_writing(pinned: PinnedPath) -> tuple[int | None, os.stat_result | None]:
    try:
        descriptor = pinned.open(os.O_WRONLY)
    except FileNotFoundError:
        return None, None
    except OSError as error:
        if error.errno != errno.ETXTBSY:
            raise
        return None, pinned.stat()
    return descriptor, os.fstat(descriptor)


class StagedFile:
    """The new version of a file, in a temporary file next to the old file. The temporary file is
    removed unless it is published."""

    def __init__(self, descriptor: int, directory: int, name: str | None) -> None:
        self._descriptor = descriptor
        self._directory = directory
        self._name = name

    @classmethod
    @contextmanager
    def beside(cls, pinned: PinnedPath, old: ReplacedFile | None) -> Iterator[StagedFile]:
        """Create the temporary file. If we may not create files in the directory, use one in the
        system's temporary directory; its content is then copied into the old file."""
        name = f".bascule-{secrets.token_hex(6)}.tmp"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        # Nobody else may read the new content before the file has the mode of the old file.
        mode = NEW_FILE_MODE if old is None else 0o600
        try:
            staged = cls(
                os.open(name, flags, mode, dir_fd=pinned.directory), pinned.directory, name
            )
        except OSError as error:
            if old is None or old.descriptor is None or error.errno not in _NO_ROOM_BESIDE:
                raise
            with tempfile.TemporaryFile() as elsewhere:
                yield cls(elsewhere.fileno(), pinned.directory, None)
            return
        try:
            yield staged
        finally:
            os.close(staged._descriptor)
            staged._discard()

    def fill(self, content: Iterable[bytes]) -> None:
        for piece in content:
            write_all(self._descriptor, piece)

    def give_to(self, owner: FileOwner | None) -> None:
        if owner is not None:
            os.fchown(self._descriptor, owner.uid, owner.gid)

    def copy_metadata(self, old: ReplacedFile) -> bool:
        """Copy owner, mode and attributes of the old file; False if we lack the permission."""
        if self._name is None:
            return False
        file_stat, mine = old.file_stat, os.fstat(self._descriptor)
        if (mine.st_uid, mine.st_gid) != (file_stat.st_uid, file_stat.st_gid):
            try:
                os.fchown(self._descriptor, file_stat.st_uid, file_stat.st_gid)
            except PermissionError:
                if old.descriptor is not None:
                    return False
        mode = stat.S_IMODE(file_stat.st_mode)
        try:
            os.fchmod(self._descriptor, mode)
        except PermissionError:
            # A session cannot create set-ID files in a folder of the host (`session/seccomp.py`).
            # Dropping the bits is harmless: the kernel also drops them when somebody writes.
            os.fchmod(self._descriptor, mode & ~(stat.S_ISUID | stat.S_ISGID))
        if old.descriptor is not None:
            _copy_attributes(old.descriptor, self._descriptor)
        return True

    def publish(self, pinned: PinnedPath, *, must_be_new: bool) -> None:
        """Give the new file its final name. With `must_be_new`, fails if the name exists."""
        if must_be_new and self._link_to(pinned):
            return
        self.rename_to(pinned)

    def rename_to(self, pinned: PinnedPath) -> None:
        assert self._name is not None
        os.rename(self._name, pinned.name, src_dir_fd=self._directory, dst_dir_fd=pinned.directory)
        self._name = None

    def _link_to(self, pinned: PinnedPath) -> bool:
        """Publish by hard link; returns False if the file system has no hard links.

        Unlike a rename, a link fails if the name exists already.
        """
        assert self._name is not None
        try:
            os.link(
                self._name,
                pinned.name,
                src_dir_fd=self._directory,
                dst_dir_fd=pinned.directory,
                follow_symlinks=False,
            )
        except OSError as error:
            if error.errno in _NO_HARD_LINKS:
                return False
            raise
        return True

    def copy_into(self, target: int) -> None:
        """Rewrite an open file in place. A full disk raises before any old content is changed."""
        size = os.fstat(self._descriptor).st_size
        before = os.fstat(target).st_size
        if size > before:
            try:
                os.posix_fallocate(target, before, size - before)
            except OSError:
                os.ftruncate(target, before)
                raise
        done = 0
        while done < size:
            copied = os.sendfile(target, self._descriptor, done, size - done)
            if not copied:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            done += copied
        os.ftruncate(target, size)

    def _discard(self) -> None:
        if self._name is not None:
            with suppress(FileNotFoundError):
                os.unlink(self._name, dir_fd=self._directory)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`: on a full disk, `os.write` may write only a part before it fails."""
    written = os.write(descriptor, data)
    while written < len(data):
        written += os.write(descriptor, memoryview(data)[written:])


def _copy_attributes(source: int, target: int) -> None:
    """Copy extended attributes (ACLs, security labels, user attributes) as far as permitted."""
    try:
        names = os.listxattr(source)
    except OSError:
        return
    for name in names:
        with suppress(OSError):
            os.setxattr(target, name, os.getxattr(source, name))
