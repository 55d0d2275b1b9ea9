"""Resolves paths and checks that they are inside the allowed roots, without races.

Whatever touches a file goes through a `PinnedPath`: a directory held open, and a name in it. The
directory is opened first and checked afterwards, by asking the kernel where the open descriptor
really is; from then on links may be swapped at will, the place stays the same one. The name in it
is never followed as a link. So nothing can happen between the check and the use.
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

_PINNED = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_READABLE = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MAX_LINKS = 40


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
    shown: str
    """The path for people: absolute, otherwise as they wrote it."""
    key: tuple[int, int, str]
    """The same for every path that leads here."""

    def stat(self) -> os.stat_result | None:
        """What is there now, a link as a link; None when nothing is."""
        try:
            return os.stat(self.name, dir_fd=self.directory, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open(self, flags: int, mode: int = 0o600) -> int:
        """A descriptor of what is there. A pipe does not block, a link is refused."""
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(self.name, flags, mode, dir_fd=self.directory)


class Paths:
    """Resolves paths to `PinnedPath`s, inside `roots` if those are given.

    Raises `PathOutsideRoots` for whatever leads out of the roots once links and `..` are resolved,
    be it there or not, so that nothing can be learnt about the outside. Every `OSError` while a
    place or directory is held comes out as the `BasculeError` that says the same.
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
        """`path` for people: joined to `cwd`, links and `..` left as they are."""
        if not path:
            raise InvalidPath("The path is empty")
        if "\0" in path:
            raise InvalidPath(f"{path!r} holds a NUL character, which no path can")
        try:
            os.fsencode(path)
        except UnicodeEncodeError as error:
            raise InvalidPath(f"{path!r} cannot be the name of a file: {error.reason}") from error
        return str(PurePosixPath(cwd, path))

    def resolve(self, path: str, cwd: str) -> Path:
        """Where `path` leads at this moment, for programs that take no open directory."""
        try:
            with self.directory(path, cwd) as directory:
                return Path(real_path(directory))
        except (NotADirectory, NoSuchPath):
            with self.place(path, cwd) as place:
                return Path(real_path(place.directory), place.name)

    @contextmanager
    def place(
        self, path: str, cwd: str, *, follow: bool = True, make_parents: bool = False
    ) -> Iterator[PinnedPath]:
        """Hold the place of a file. With `follow`, of the file that a link there leads to."""
        shown = self.absolute(path, cwd)
        with self._explaining(path, cwd), self._naming(shown):
            parent, name = os.path.split(shown)
            if name in ("", ".."):
                wrong = IsADirectory if follow else InvalidPath
                raise wrong(f"{shown} is a directory, and its own name is not in the path")
            if follow and self._is_root(shown):
                raise IsADirectory(f"Path is a directory: {shown}. This works on files only")
            directory = self._open(parent, shown, make=make_parents)
            try:
                if follow:
                    directory, name = self._follow(directory, name, shown)
                held = os.fstat(directory)
                yield PinnedPath(directory, name, shown, (held.st_dev, held.st_ino, name))
            finally:
                os.close(directory)

    @contextmanager
    def directory(self, path: str, cwd: str, *, make: bool = False) -> Iterator[int]:
        """Hold a directory open for listing; `make` makes it and its parents when missing."""
        shown = self.absolute(path, cwd)
        with self._explaining(path, cwd), self._naming(shown):
            pinned = self._open(shown, shown, make=make)
            try:
                readable = os.open(".", _READABLE, dir_fd=pinned)
            finally:
                os.close(pinned)
            try:
                yield readable
            finally:
                os.close(readable)

    def _open(self, path: str, shown: str, *, make: bool = False, base: int | None = None) -> int:
        """A pinned descriptor of a directory inside the roots; `make` makes what is missing."""
        try:
            directory = os.open(path, _PINNED, dir_fd=base)
        except FileNotFoundError:
            if not make or os.path.split(path)[1] in ("", ".", ".."):
                raise
            directory = self._make(path, shown, base)
        try:
            self._ensure_inside(directory, shown)
        except BaseException:
            os.close(directory)
            raise
        return directory

    def _make(self, path: str, shown: str, base: int | None) -> int:
        parent, name = os.path.split(path)
        above = self._open(parent or ".", shown, make=True, base=base)
        try:
            make_directory(above, name, self.owner)
            # A link put here meanwhile is refused rather than followed out of the roots.
            return os.open(name, _PINNED | os.O_NOFOLLOW, dir_fd=above)
        finally:
            os.close(above)

    def _follow(self, directory: int, name: str, shown: str) -> tuple[int, str]:
        """Takes over `directory`; whoever calls closes the one returned, also on failure."""
        for _ in range(_MAX_LINKS):
            try:
                target = os.readlink(name, dir_fd=directory)
            except OSError as error:
                if error.errno in (errno.EINVAL, errno.ENOENT):
                    return directory, name
                raise
            parent, name = os.path.split(target)
            if name in ("", ".", ".."):
                raise IsADirectory(f"{shown} is a link to a directory")
            following = self._open(parent or ".", shown, base=directory)
            os.dup2(following, directory, inheritable=False)
            os.close(following)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))

    def _ensure_inside(self, directory: int, shown: str) -> None:
        if self._roots is not None and not self._is_inside(real_path(directory)):
            raise self._outside(shown)

    def _is_inside(self, real: str) -> bool:
        return self._roots is None or _as_prefix(real, real=True).startswith(self._roots)

    def _leads_inside(self, shown: str) -> bool:
        """Whether the path is inside the roots and an error may name it; if in doubt, False."""
        try:
            return self._is_inside(os.path.realpath(shown))
        except OSError:  # a link that was swapped while it was looked at
            return False

    def _is_root(self, shown: str) -> bool:
        """Its parent is outside, but to say so of the root itself would puzzle everyone."""
        return self._roots is not None and f"{shown.rstrip('/')}/" in self._roots

    def _outside(self, shown: str) -> PathOutsideRoots:
        allowed = ", ".join(root.rstrip("/") or "/" for root in self._roots or ())
        return PathOutsideRoots(f"{shown} leads outside of what may be used here: {allowed}")

    @contextmanager
    def _explaining(self, path: str, cwd: str) -> Iterator[None]:
        """While open, a relative path that leads outside is told with where it was taken from."""
        try:
            yield
        except PathOutsideRoots as error:
            if path.startswith("/"):
                raise
            raise PathOutsideRoots(
                f"{error.message} ({path!r} was taken from {cwd}, where the shell is)"
            ) from None

    @contextmanager
    def _naming(self, shown: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if self._roots is not None and not self._leads_inside(shown):
                raise self._outside(shown) from None
            raise failure(error, shown) from error


def make_directory(above: int, name: str, owner: FileOwner | None) -> bool:
    """Make a directory in an open one; False when one is there already."""
    try:
        os.mkdir(name, dir_fd=above)
    except FileExistsError:
        return False
    if owner is not None:
        os.chown(name, owner.uid, owner.gid, dir_fd=above, follow_symlinks=False)
    return True


def ensure_regular(found: os.stat_result, shown: str) -> None:
    """Pipes, devices and sockets have no content to read or replace."""
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectory(f"Path is a directory: {shown}. This works on files only")
    if not stat.S_ISREG(found.st_mode):
        raise InvalidPath(f"{shown} is a pipe, socket or device, not a file")


def failure(error: OSError, shown: str) -> BasculeError:
    """Convert an `OSError` to the matching `BasculeError`."""
    reason = (error.strerror or str(error)).lower()
    match error.errno:
        case errno.ENOENT:
            return NoSuchPath(f"File not found: {shown}")
        case errno.EEXIST:
            return PathExists(f"{shown} exists already")
        case errno.EISDIR:
            return IsADirectory(f"Path is a directory: {shown}. This works on files only")
        case errno.ENOTDIR:
            return NotADirectory(f"{shown} is not a directory, or leads through a file")
        case errno.ENOTEMPTY:
            return DirectoryNotEmpty(f"{shown} is not empty; remove what is in it by `recursive`")
        case errno.EACCES | errno.EPERM:
            return PermissionRefused(f"{shown}: {reason.capitalize()}")
        case errno.ENAMETOOLONG | errno.ELOOP | errno.EINVAL | errno.ENXIO:
            return InvalidPath(f"{_shortened(shown)}: {reason}")
        case _:
            return StorageFailed(f"{shown}: {reason}")


def printable(name: str) -> str:
    """A file name that can travel as text; bytes that are not UTF-8 become a question mark."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "replace")


def real_path(descriptor: int) -> str:
    """Where an open directory is now."""
    return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 -- half the time of pathlib


def _as_prefix(path: Path | str, *, real: bool = False) -> str:
    """With a slash at its end, so that `/a` is no prefix of `/ab`."""
    return (str(path) if real else os.path.realpath(path)).rstrip("/") + "/"


def _shortened(shown: str) -> str:
    return shown if len(shown) <= 200 else f"{shown[:100]}…{shown[-100:]}"
