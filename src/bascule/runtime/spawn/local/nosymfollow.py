"""Makes the kernel follow no symlinks in a directory, for any process (`nosymfollow`).

Sessions create sockets in directories that the hub and nginx use. A session could plant a symlink
there to a socket of another session or of the machine, and the hub or nginx would follow it
with its own rights. In a `nosymfollow` directory the kernel returns an error instead.

All functions work on open directories, because a path can change between two lookups.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Final

from .safe_open import open_real

_OPEN_TREE: Final = 428
_MOVE_MOUNT: Final = 429
_MOUNT_SETATTR: Final = 442
"""Numbers of system calls, the same on every architecture. This module needs Linux 5.14."""
_OPEN_TREE_CLONE: Final = 0x1
_AT_EMPTY_PATH: Final = 0x1000
_MOVE_MOUNT_BOTH_EMPTY: Final = 0x04 | 0x40
_NOSUID, _NODEV, _NOEXEC, _NOSYMFOLLOW = 0x2, 0x4, 0x8, 0x200000
_ST_NOSYMFOLLOW: Final = 0x2000
_MNT_DETACH: Final = 0x2

_libc = ctypes.CDLL(None, use_errno=True)


class _Attributes(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def forbid_links(path: Path) -> bool:
    """Forbid symlinks; returns whether this changed anything. Raises `OSError` if impossible."""
    directory = open_real(path)
    try:
        if follows_no_links(directory):
            return False
        _mount_over_itself(directory, path)
        return True
    finally:
        os.close(directory)


def allow_links(path: Path) -> None:
    """Allow symlinks again."""
    directory = open_real(path)
    try:
        if follows_no_links(directory) and _is_top_of_mount(directory):
            name = f"/proc/self/fd/{directory}".encode()
            _check(_libc.umount2(name, _MNT_DETACH), path)
    finally:
        os.close(directory)


def follows_no_links(directory: int) -> bool:
    return bool(os.fstatvfs(directory).f_flag & _ST_NOSYMFOLLOW)


def _mount_over_itself(directory: int, path: Path) -> None:
    """Mount the directory over itself, with the attribute set before the mount is visible."""
    clone = _libc.syscall(
        _OPEN_TREE, directory, b"", _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH
    )
    _check(0 if clone >= 0 else -1, path)
    try:
        attributes = _Attributes(attr_set=_NOSYMFOLLOW | _NOSUID | _NODEV | _NOEXEC)
        size = ctypes.c_size_t(ctypes.sizeof(attributes))
        set_ = _libc.syscall(
            _MOUNT_SETATTR, clone, b"", _AT_EMPTY_PATH, ctypes.byref(attributes), size
        )
        _check(set_, path)
        result = _libc.syscall(_MOVE_MOUNT, clone, b"", directory, b"", _MOVE_MOUNT_BOTH_EMPTY)
        _check(result, path)
    finally:
        os.close(clone)


def _is_top_of_mount(directory: int) -> bool:
    parent = os.open("..", os.O_PATH | os.O_CLOEXEC, dir_fd=directory)
    try:
        return _mount_of(directory) != _mount_of(parent)
    finally:
        os.close(parent)


def _mount_of(descriptor: int) -> str:
    lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
    return next(line for line in lines if line.startswith("mnt_id:"))


def _check(result: int, path: Path) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))
