"""Records the path of a merge's temporary file, to remove the file after a `kill -9`.

A merge writes one file at a time, in the directory of the file that it replaces. The journal has
the path of the file that is being written. So only a merge's own files are removed, never a user's
file with a similar name. All functions block.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from bascule.core.errors import StorageFailed

from .tree_files import GIT, opened_below, opened_tree

_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TEMPORARY_NAME: Final = re.compile(r"\.bascule-[0-9a-f]{16}")
_MAX_PATH_BYTES: Final = 1 << 16


class MergeJournal:
    """The open journal of a running merge."""

    def __init__(self, descriptor: int | None = None) -> None:
        """`descriptor` is the open file of the journal. With None, nothing is recorded."""
        self._descriptor = descriptor

    def new_temporary_name(self, directory: str) -> str:
        """Record and return the name of a new temporary file in a directory of the workspace."""
        name = f".bascule-{secrets.token_hex(8)}"
        if self._descriptor is not None:
            _write(self._descriptor, os.fsencode(f"{directory}/{name}" if directory else name))
        return name


@contextmanager
def merge_journal(file: Path, workspace: Path) -> Iterator[MergeJournal]:
    """Open the journal of a new merge, in `file`. Removes the temporary file of a killed merge.

    Raises `StorageFailed` while another merge has the journal, or if the journal cannot be written.
    The function does not wait for the other merge, because a program of the session could hold the
    lock forever.
    """
    try:
        descriptor = _open_locked(file)
    except BlockingIOError as error:
        raise StorageFailed(
            "Another merge into this workspace is running; merge again when it has ended"
        ) from error
    except OSError as error:
        raise StorageFailed(f"The journal of merges cannot be used: {error.strerror}") from error
    try:
        _remove_leftover(descriptor, workspace)
        yield MergeJournal(descriptor)
        _write(descriptor, b"")
    finally:
        os.close(descriptor)


def _open_locked(file: Path) -> int:
    descriptor = os.open(file, _FLAGS, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _remove_leftover(descriptor: int, workspace: Path) -> None:
    path = os.fsdecode(os.pread(descriptor, _MAX_PATH_BYTES, 0))
    directory, _, name = path.rpartition("/")
    parts = directory.split("/") if directory else []
    if not _TEMPORARY_NAME.fullmatch(name) or any(part in ("", ".", "..", GIT) for part in parts):
        return
    with (
        suppress(FileNotFoundError, NotADirectoryError),
        opened_tree(workspace) as root,
        opened_below(root, directory) as parent,
    ):
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        is_ours = found.st_uid == os.geteuid() and not stat.S_ISDIR(found.st_mode)
        if is_ours:
            os.unlink(name, dir_fd=parent)


def _write(descriptor: int, content: bytes) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, content, 0)
