"""Removes and walks directory trees of any depth.

A session can create trees of any depth, one directory at a time. Recursion, or one descriptor per
level, would fail at some thousand levels. All functions block.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

OpenDir = Callable[[str, int], int]
"""Opens a directory: takes its name and the descriptor of its parent, returns its descriptor."""

_DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class _Level:
    identity: tuple[int, int]
    folders: list[str]
    others: list[str]
    to_visit: list[str]

    @classmethod
    def of(cls, directory: int) -> Self:
        folders: list[str] = []
        others: list[str] = []
        with os.scandir(directory) as entries:
            for entry in entries:
                (folders if entry.is_dir(follow_symlinks=False) else others).append(entry.name)
        return cls(_identity(directory), folders, others, folders.copy())


def open_dir(name: str, parent: int) -> int:
    return os.open(name, _DIRECTORY_FLAGS, dir_fd=parent)


def open_with_rights(name: str, parent: int) -> int:
    """Open a directory. If its permissions forbid this, or if our user owns the directory, set its
    mode to 0700."""
    try:
        descriptor = open_dir(name, parent)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=parent)
        return open_dir(name, parent)
    if os.geteuid() == os.fstat(descriptor).st_uid:
        os.fchmod(descriptor, 0o700)
    return descriptor


def innermost_first(
    directory: int, *, opening: OpenDir = open_dir
) -> Iterator[tuple[int, list[str], list[str]]]:
    """Walk the open directory and everything below it, innermost directories first.

    Yields the descriptor of each directory, the names of the directories in it, and all other
    names. Each directory stays open until the next is requested. Symlinks are not followed. Two
    descriptors suffice for any depth: the way back is `..`. Raises `OSError` if `..` is not the
    directory that we came from, because another process moved a directory
    meanwhile.
    """
    here = os.dup(directory)
    try:
        levels = [_Level.of(here)]
        while True:
            level = levels[-1]
            if level.to_visit:
                here = _exchange(here, opening(level.to_visit.pop(), here))
                levels.append(_Level.of(here))
                continue
            yield here, level.folders, level.others
            levels.pop()
            if not levels:
                return
            here = _exchange(here, open_dir("..", here))
            if _identity(here) != levels[-1].identity:
                raise OSError(errno.ESTALE, "a directory was moved while it was being read")
    finally:
        os.close(here)


def clear(directory: int) -> None:
    """Remove the contents of a directory. No process may change it meanwhile."""
    for opened, folders, others in innermost_first(directory, opening=open_with_rights):
        for name in others:
            os.unlink(name, dir_fd=opened)
        for name in folders:
            os.rmdir(name, dir_fd=opened)


def remove(directory: Path) -> None:
    """Remove a directory with its contents, if it exists. Refuses a symlink."""
    try:
        opened = os.open(directory, _DIRECTORY_FLAGS)
    except FileNotFoundError:
        return
    try:
        clear(opened)
    finally:
        os.close(opened)
    directory.rmdir()


def _exchange(old: int, new: int) -> int:
    os.close(old)
    return new


def _identity(directory: int) -> tuple[int, int]:
    found = os.fstat(directory)
    return found.st_dev, found.st_ino
