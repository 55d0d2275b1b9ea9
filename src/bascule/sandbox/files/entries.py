"""Describes and moves files and directories, for clients that show them as a file manager does."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, Final

from bascule.core.errors import BasculeError, InvalidRange, NoSuchPath, NotADirectory, PathExists

from .paths import Paths, PinnedPath, printable
from .storage import Storage

MAX_ENTRIES: Final = 10_000
"""Maximum number of entries of one listing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A file, directory or link. For a link, everything but `type` describes the link itself."""

    name: str
    path: str
    """Absolute; links in it are not resolved."""
    type: str
    """`file`, `directory`, or `other`; for a link the type of its target, or `missing`."""
    target: str | None
    """Where a link leads; None for everything else."""
    size: int
    mode: int
    permissions: str
    """The mode as `ls` prints it."""
    owner: str
    group: str
    modified: float
    """Unix time."""

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


class FileEntries:
    """Describes and moves files. All methods block and are thread-safe."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._paths = storage.paths

    def describe(self, path: str) -> FileEntry:
        """The entry at an absolute path. Raises `NoSuchPath`."""
        if path == "/":
            with self._paths.directory(path, "/") as directory:
                return self._entry("/", "/", os.fstat(directory), None)
        with self._paths.pin(path, "/", follow=False) as pinned:
            found = pinned.stat()
            if found is None:
                raise NoSuchPath(f"File not found: {path}")
            target = None
            if stat.S_ISLNK(found.st_mode):
                target = os.readlink(pinned.name, dir_fd=pinned.directory)
            return self._entry(path, pinned.name, found, target)

    def list_entries(self, path: str, *, depth: int) -> list[FileEntry]:
        """The entries of a directory, and of the directories in it up to `depth` levels.

        Raises `InvalidRange` if there are more than `MAX_ENTRIES`.
        """
        if depth < 1:
            raise InvalidRange(f"`depth` is {depth}; it must be 1 or more")
        entries: list[FileEntry] = []
        with self._paths.directory(path, "/") as directory:
            for entry in self._below(directory, path, depth):
                if len(entries) == MAX_ENTRIES:
                    raise InvalidRange(
                        f"{path} has more than {MAX_ENTRIES:,} entries; list a directory inside it,"
                        " or use a smaller `depth`"
                    )
                entries.append(entry)
        return entries

    def move(self, source: str, destination: str) -> FileEntry:
        """Rename a file or directory. An existing file at the destination is replaced."""
        with (
            self._paths.pin(source, "/", follow=False) as old,
            self._paths.pin(destination, "/", follow=False, make_parents=True) as new,
        ):
            if old.stat() is None:
                raise NoSuchPath(f"File not found: {source}")
            _rename(old, new)
        return self.describe(destination)

    def write(self, path: str, content: Iterable[bytes]) -> FileEntry:
        """Replace the content of a file, or create it with its parents. If `content` raises an
        error, the file stays as it was."""
        with (
            self._paths.pin(path, "/", make_parents=True) as pinned,
            self._storage.exclusive(pinned),
        ):
            self._storage.replace(pinned, content)
        return self.describe(path)

    def _below(self, directory: int, path: str, depth: int) -> Iterator[FileEntry]:
        with os.scandir(directory) as scan:
            names = sorted(each.name for each in scan)
        for name in names:
            try:
                found = os.stat(name, dir_fd=directory, follow_symlinks=False)
                is_link = stat.S_ISLNK(found.st_mode)
                target = _target(name, directory) if is_link else None
            except FileNotFoundError:  # removed meanwhile
                continue
            shown = str(PurePosixPath(path, printable(name)))
            yield self._entry(shown, printable(name), found, target)
            if stat.S_ISDIR(found.st_mode) and depth > 1:
                yield from self._inside(directory, name, shown, depth - 1)

    def _inside(self, above: int, name: str, path: str, depth: int) -> Iterator[FileEntry]:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            directory = os.open(name, flags, dir_fd=above)
        except (PermissionError, FileNotFoundError, NotADirectoryError):
            return
        try:
            yield from self._below(directory, path, depth)
        finally:
            os.close(directory)

    def _entry(self, path: str, name: str, found: os.stat_result, target: str | None) -> FileEntry:
        kind = _type(found.st_mode) if target is None else _target_type(self._paths, path)
        return FileEntry(
            name=name,
            path=path,
            type=kind,
            target=None if target is None else printable(target),
            size=found.st_size,
            mode=stat.S_IMODE(found.st_mode),
            permissions=stat.filemode(found.st_mode),
            owner=_user_name(found.st_uid),
            group=_group_name(found.st_gid),
            modified=found.st_mtime,
        )


def _rename(old: PinnedPath, new: PinnedPath) -> None:
    try:
        os.rename(old.name, new.name, src_dir_fd=old.directory, dst_dir_fd=new.directory)
    except OSError as error:
        if error.errno in (errno.EISDIR, errno.ENOTEMPTY):
            raise PathExists(f"{new.shown_path} exists already") from error
        raise


def _target(name: str, directory: int) -> str:
    try:
        return os.readlink(name, dir_fd=directory)
    except PermissionError:  # as for some links below /proc
        return ""


def _type(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "directory"
    return "file" if stat.S_ISREG(mode) else "other"


def _target_type(paths: Paths, path: str) -> str:
    try:
        with paths.directory(path, "/"):
            return "directory"
    except NotADirectory:
        return "file"
    except BasculeError:
        return "missing"


@lru_cache(maxsize=256)
def _user_name(uid: int) -> str:
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return str(uid)


@lru_cache(maxsize=256)
def _group_name(gid: int) -> str:
    with suppress(KeyError):
        return grp.getgrgid(gid).gr_name
    return str(gid)
