"""Copies files and directory trees, sharing their blocks where the file system can."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from bascule.core.errors import MissingTool, StorageFailed

from .tree_files import REGULAR

_FICLONE: Final = 0x40049409
"""The ioctl that makes a file share all blocks of another file (btrfs, XFS, bcachefs)."""
_UNSUPPORTED: Final = frozenset(
    {errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM}
)
_NEW_FILE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE_BYTES: Final = 1 << 20
_MAX_TRIES: Final = 3


class FileCopier:
    """Copies single files between open directories. Copies keep permissions and times. Calls block.

    After the first failed attempt on a file system without reflinks, contents are copied.
    """

    def __init__(self, owner: int | None = None) -> None:
        """With `owner`, refuse private files of other users."""
        self._owner = owner
        self.shares_blocks = True
        """Whether files are copied by reflink: True until an attempt has failed."""

    def copy(self, source: int, name: str, target: int) -> None:
        """Copy a regular file. A file that changes meanwhile is copied again, a few times.

        Raises `FileNotFoundError` if the path is no regular file any more, and `PermissionError`
        for a private file of another user.
        """
        opened = os.open(name, REGULAR, dir_fd=source)
        try:
            for last in range(1, _MAX_TRIES + 1):
                before = os.fstat(opened)
                if not stat.S_ISREG(before.st_mode):
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
                is_foreign = self._owner is not None and before.st_uid != self._owner
                if is_foreign and not before.st_mode & stat.S_IROTH:
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
                self._copy_once(opened, before, target, name)
                after = os.fstat(opened)
                is_same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
                if is_same or last == _MAX_TRIES:
                    return
                os.unlink(name, dir_fd=target)
        finally:
            os.close(opened)

    def _copy_once(self, opened: int, found: os.stat_result, target: int, name: str) -> None:
        copy = os.open(name, _NEW_FILE_FLAGS, 0o600, dir_fd=target)
        try:
            if not (self.shares_blocks and self._reflink(opened, copy)):
                _copy_content(opened, copy, found.st_size)
            os.fchmod(copy, stat.S_IMODE(found.st_mode) & 0o777)
            os.utime(copy, ns=(found.st_atime_ns, found.st_mtime_ns))
        finally:
            os.close(copy)

    def _reflink(self, opened: int, copy: int) -> bool:
        try:
            fcntl.ioctl(copy, _FICLONE, opened)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            self.shares_blocks = False
            return False
        return True


def _copy_content(source: int, target: int, size: int) -> None:
    """Copy at most `size` bytes, and keep holes: a sparse file may be larger than the disk."""
    os.ftruncate(target, size)
    at = 0
    while at < size:
        try:
            at = os.lseek(source, at, os.SEEK_DATA)
            end = min(os.lseek(source, at, os.SEEK_HOLE), size)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                return
            raise
        os.lseek(source, at, os.SEEK_SET)
        os.lseek(target, at, os.SEEK_SET)
        while at < end:
            sent = os.sendfile(target, source, None, min(_PIECE_BYTES, end - at))
            if not sent:
                return  # the file became shorter
            at += sent


async def copy_tree(source: Path, target: Path) -> None:
    """Copy a tree into an existing empty directory, with links and times. Nobody may change the
    tree meanwhile.

    `cp` copies the files; cancelling this function ends `cp`. Raises `StorageFailed`.
    """
    words = ("cp", "-a", "--reflink=auto", "-T", "--", str(source), str(target))
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stderr=asyncio.subprocess.PIPE,
            env={"LC_ALL": "C", "PATH": os.defpath},
        )
    except FileNotFoundError as error:
        message = "Forks are copied with cp(1), which is not installed; install coreutils"
        raise MissingTool(message) from error
    try:
        _, errors = await process.communicate()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        first = errors.decode(errors="replace").partition("\n")[0]
        raise StorageFailed(f"The fork's files could not be copied: {first}")
