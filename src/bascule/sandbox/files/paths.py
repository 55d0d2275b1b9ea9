"""Resolves paths and checks that they are inside the allowed roots, without races.

All file access goes through a `PinnedPath`: an open directory and a name in it. The directory is
opened first and checked afterwards, by reading the real path of its descriptor from the kernel.
Links that somebody swaps later cannot redirect the open descriptor, and the name is never followed
as a link. So there is no race between check and use.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from bascule.core.errors import (
    BasculeError,
    DirectoryNotEmpty,
    InvalidPath,
    IsADirectory,
    MissingTool,
    NoSuchPath,
    NotADirectory,
    PathExists,
    PathOutsideRoots,
    PermissionRefused,
    StorageFailed,
)

_PIN_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_LISTING_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MAX_LINKS = 40
"""Maximum number of links followed for one path; the same as in Linux."""


@dataclass(frozen=True, slots=True)
class FileOwner:
    """The owner of new files and directories, if it is not the server's own user."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class PinnedPath:
    """A name in a directory that is held open. The file itself may or may not exist."""

    directory: int
    name: str
    shown_path: str
    """The absolute path for messages; links and `..` are not resolved."""
    key: tuple[int, int, str]
    """Identifies the file: equal for all paths that lead to this directory and name."""

    def stat(self) -> os.stat_result | None:
        """Return the current status without following a link; None if nothing exists there."""
        try:
            return os.stat(self.name, dir_fd=self.directory, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open(self, flags: int, mode: int = 0o600) -> int:
        """Return a new descriptor. Opening a pipe does not block; a link is refused."""
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(self.name, flags, mode, dir_fd=self.directory)


class Paths:
    """Resolves paths to `PinnedPath`s, inside `roots` if given.

    Raises `PathOutsideRoots` for a path that leads out of the roots after links and `..` are
    resolved. It does so whether or not the path exists, so that callers learn nothing about the
    outside. Inside `with pin(…)` or `with directory(…)`, every `OSError` is converted to a
    `BasculeError`.
    """

    def __init__(
        self, roots: Sequence[Path | str] | None = None, *, owner: FileOwner | None = None
    ) -> None:
        self.owner = owner
        self._roots = None if roots is None else tuple(_as_prefix(root) for root in roots)
        if roots is not None and not Path("/proc/self/fd").is_dir():
            raise MissingTool("Confining paths needs /proc. Mount it, or confine nothing")

    @property
    def confined(self) -> bool:
        return self._roots is not None

    def absolute(self, path: str, cwd: str) -> str:
        """Return `path` joined to `cwd`, for messages; links and `..` are not resolved."""
        if not path:
            raise InvalidPath("The path is empty")
        if "\0" in path:
            raise InvalidPath(f"{path!r} contains a NUL character, which no path can")
        try:
            os.fsencode(path)
        except UnicodeEncodeError as error:
            raise InvalidPath(f"{path!r} is not a valid file name: {error.reason}") from error
        return str(PurePosixPath(cwd, path))

    def resolve(self, path: str, cwd: str) -> Path:
        """Return the current real path, for programs that cannot take an open directory."""
        try:
            with self.directory(path, cwd) as directory:
                return Path(real_path(directory))
        except (NotADirectory, NoSuchPath):
            with self.pin(path, cwd) as pinned:
                return Path(real_path(pinned.directory), pinned.name)

    @contextmanager
    def pin(
        self, path: str, cwd: str, *, follow: bool = True, make_parents: bool = False
    ) -> Iterator[PinnedPath]:
        """Open the parent directory of a file, and close it at the end of the `with` block.

        With `follow`, a link at the end of the path is replaced by its target.
        """
        shown_path = self.absolute(path, cwd)
        with self._with_base_directory(path, cwd), self._converting_errors(shown_path):
            parent, name = os.path.split(shown_path)
            if name in ("", ".."):
                error_class = IsADirectory if follow else InvalidPath
                raise error_class(
                    f"{shown_path} is a directory, and its own name is not in the path"
                )
            if follow and self._is_root(shown_path):
                raise IsADirectory(f"Path is a directory: {shown_path}. This works on files only")
            directory = self._open(parent, shown_path, make=make_parents)
            try:
                if follow:
                    directory, name = self._follow(directory, name, shown_path)
                parent_stat = os.fstat(directory)
                key = parent_stat.st_dev, parent_stat.st_ino, name
                yield PinnedPath(directory, name, shown_path, key)
            finally:
                os.close(directory)

    @contextmanager
    def directory(self, path: str, cwd: str, *, make: bool = False) -> Iterator[int]:
        """Hold a directory open for listing; `make` creates it and its parents if missing."""
        shown_path = self.absolute(path, cwd)
        with self._with_base_directory(path, cwd), self._converting_errors(shown_path):
            pinned = self._open(shown_path, shown_path, make=make)
            try:
                readable = os.open(".", _LISTING_FLAGS, dir_fd=pinned)
            finally:
                os.close(pinned)
            try:
                yield readable
            finally:
                os.close(readable)

    def _open(
        self, path: str, shown_path: str, *, make: bool = False, base: int | None = None
    ) -> int:
        """Open a directory inside the roots; `make` creates missing directories."""
        try:
            directory = os.open(path, _PIN_FLAGS, dir_fd=base)
        except FileNotFoundError:
            if not make or os.path.split(path)[1] in ("", ".", ".."):
                raise
            directory = self._make(path, shown_path, base)
        try:
            self._ensure_inside(directory, shown_path)
        except BaseException:
            os.close(directory)
            raise
        return directory

    def _make(self, path: str, shown_path: str, base: int | None) -> int:
        parent_path, name = os.path.split(path)
        parent = self._open(parent_path or ".", shown_path, make=True, base=base)
        try:
            make_directory(parent, name, self.owner)
            # Refuse a link that somebody created here meanwhile: it could lead out of the roots.
            return os.open(name, _PIN_FLAGS | os.O_NOFOLLOW, dir_fd=parent)
        finally:
            os.close(parent)

    def _follow(self, directory: int, name: str, shown_path: str) -> tuple[int, str]:
        """Follow links; return the directory and name of the target.

        Reuses the descriptor `directory`, which the caller closes in any case.
        """
        for _ in range(_MAX_LINKS):
            try:
                target = os.readlink(name, dir_fd=directory)
            except OSError as error:
                if error.errno in (errno.EINVAL, errno.ENOENT):
                    return directory, name
                raise
            parent, name = os.path.split(target)
            if name in ("", ".", ".."):
                raise IsADirectory(f"{shown_path} is a link to a directory")
            following = self._open(parent or ".", shown_path, base=directory)
            os.dup2(following, directory, inheritable=False)
            os.close(following)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))

    def _ensure_inside(self, directory: int, shown_path: str) -> None:
        if self._roots is not None and not self._is_inside(real_path(directory)):
            raise self._outside(shown_path)

    def _is_inside(self, real: str) -> bool:
        return self._roots is None or _as_prefix(real, is_real=True).startswith(self._roots)

    def _leads_inside(self, shown_path: str) -> bool:
        """Whether the path is inside the roots, so that an error may describe what is there. False
        if that cannot be determined."""
        try:
            return self._is_inside(os.path.realpath(shown_path))
        except OSError:  # somebody replaced a link during the check
            return False

    def _is_root(self, shown_path: str) -> bool:
        """Whether the path is one of the roots. Opening the parent of a root would fail with "is
        outside the allowed directories", which would confuse the user."""
        return self._roots is not None and f"{shown_path.rstrip('/')}/" in self._roots

    def _outside(self, shown_path: str) -> PathOutsideRoots:
        allowed = ", ".join(root.rstrip("/") or "/" for root in self._roots or ())
        return PathOutsideRoots(f"{shown_path} is outside the allowed directories: {allowed}")

    @contextmanager
    def _with_base_directory(self, path: str, cwd: str) -> Iterator[None]:
        """Add the base directory to `PathOutsideRoots` errors about a relative path."""
        try:
            yield
        except PathOutsideRoots as error:
            if path.startswith("/"):
                raise
            raise PathOutsideRoots(
                f"{error.message} ({path!r} was taken from {cwd}, where the shell is)"
            ) from None

    @contextmanager
    def _converting_errors(self, shown_path: str) -> Iterator[None]:
        """Convert every `OSError` to a `BasculeError` that names the path."""
        try:
            yield
        except OSError as error:
            if self._roots is not None and not self._leads_inside(shown_path):
                raise self._outside(shown_path) from None
            raise failure(error, shown_path) from error


def make_directory(parent: int, name: str, owner: FileOwner | None) -> bool:
    """Create a directory in the open directory `parent`; False if the name exists already."""
    try:
        os.mkdir(name, dir_fd=parent)
    except FileExistsError:
        return False
    if owner is not None:
        os.chown(name, owner.uid, owner.gid, dir_fd=parent, follow_symlinks=False)
    return True


def ensure_regular(file_stat: os.stat_result, shown_path: str) -> None:
    """Raise for a directory, pipe, device or socket, whose content cannot be replaced."""
    if stat.S_ISDIR(file_stat.st_mode):
        raise IsADirectory(f"Path is a directory: {shown_path}. This works on files only")
    if not stat.S_ISREG(file_stat.st_mode):
        raise InvalidPath(f"{shown_path} is a pipe, socket or device, not a file")


def failure(error: OSError, shown_path: str) -> BasculeError:
    """Convert an `OSError` to the matching `BasculeError`."""
    reason = (error.strerror or str(error)).lower()
    match error.errno:
        case errno.ENOENT:
            return NoSuchPath(f"File not found: {shown_path}")
        case errno.EEXIST:
            return PathExists(f"{shown_path} exists already")
        case errno.EISDIR:
            return IsADirectory(f"Path is a directory: {shown_path}. This works on files only")
        case errno.ENOTDIR:
            return NotADirectory(f"{shown_path} is not a directory, or leads through a file")
        case errno.ENOTEMPTY:
            return DirectoryNotEmpty(
                f"{shown_path} is not empty; set `recursive` to remove its contents"
            )
        case errno.EACCES | errno.EPERM:
            return PermissionRefused(f"{shown_path}: {reason.capitalize()}")
        case errno.ENAMETOOLONG | errno.ELOOP | errno.EINVAL | errno.ENXIO:
            return InvalidPath(f"{_shortened(shown_path)}: {reason}")
        case _:
            return StorageFailed(f"{shown_path}: {reason}")


def printable(name: str) -> str:
    """Return a file name as valid Unicode; bytes that are not UTF-8 become U+FFFD."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "replace")


def real_path(descriptor: int) -> str:
    """Return the current real path of an open file or directory."""
    return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 -- twice as fast as pathlib


def _as_prefix(path: Path | str, *, is_real: bool = False) -> str:
    """Return the real path with a slash at its end, so that `/a` is no prefix of `/ab`.

    `is_real`: `path` is a real path already, without links.
    """
    return (str(path) if is_real else os.path.realpath(path)).rstrip("/") + "/"


def _shortened(shown_path: str) -> str:
    return shown_path if len(shown_path) <= 200 else f"{shown_path[:100]}…{shown_path[-100:]}"
