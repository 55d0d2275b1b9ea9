"""A directory in which no symlink is followed, by whoever comes through it.

Sessions make sockets in directories that the hub and nginx look into. A link one of them plants
there, to another session's socket or to one of the machine's, would be followed with the hub's
rights; here it is an error of the file system.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Final

_MS_NOSUID: Final = 0x2
_MS_NODEV: Final = 0x4
_MS_NOEXEC: Final = 0x8
_MS_REMOUNT: Final = 0x20
_MS_NOSYMFOLLOW: Final = 0x100
_MS_BIND: Final = 0x1000
_MNT_DETACH: Final = 0x2

_libc = ctypes.CDLL(None, use_errno=True)


def forbid_links(directory: Path) -> bool:
    """Whether we made it so; it may have been already. Raises `OSError` where that cannot be."""
    if follows_no_links(directory):
        return False
    path = os.fsencode(directory)
    _checked(_libc.mount(path, path, None, _MS_BIND, None), directory)
    flags = _MS_REMOUNT | _MS_BIND | _MS_NOSYMFOLLOW | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    try:
        _checked(_libc.mount(None, path, None, flags, None), directory)
    except OSError:
        allow_links(directory)
        raise
    return True


def allow_links(directory: Path) -> None:
    """Undo it."""
    if is_mount(directory):
        _checked(_libc.umount2(os.fsencode(directory), _MNT_DETACH), directory)


def follows_no_links(directory: Path) -> bool:
    return any("nosymfollow" in options for options in _mounted_at(directory))


def is_mount(directory: Path) -> bool:
    return bool(_mounted_at(directory))


def _mounted_at(directory: Path) -> list[list[str]]:
    """The options of each mount that is there."""
    wanted = os.path.realpath(directory)
    rows = (line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return [row[5].split(",") for row in rows if _unescaped(row[4]) == wanted]


def _unescaped(text: str) -> str:
    return text.encode().decode("unicode_escape") if "\\" in text else text


def _checked(result: int, directory: Path) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(directory))
