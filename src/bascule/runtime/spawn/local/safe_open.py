"""Opens directories one path component at a time, so that no symlink can redirect the warden.

A warden with the rights of root acts here on requests of a process without these rights. So the
warden resolves the requested paths itself: it opens each component without following symlinks, and
then works only on the opened descriptors.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from bascule.core.errors import AccessDenied, NoSuchPath, UsageError
from bascule.runtime.spawn import trees

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_PATH: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LINKS: Final = 40
_AT_EMPTY_PATH: Final = 0x1000

_libc = ctypes.CDLL(None, use_errno=True)


def open_real(path: Path) -> int:
    """A descriptor of the directory `path`, opened component by component from `/`.

    A symlink on the way is followed only if root or our own user made it, in a directory where
    nobody else can replace it. Otherwise another user could make us act on any directory.
    """
    if not path.is_absolute() or ".." in path.parts:
        raise AccessDenied(f"{path} must be an absolute path without '..'")
    parts_left = list(reversed(path.parts[1:]))
    current = os.open("/", _OPEN_PATH)
    links = 0
    try:
        while parts_left:
            next_entry = _step(current, parts_left.pop(), path)
            if not stat.S_ISLNK(os.fstat(next_entry).st_mode):
                os.close(current)
                current = next_entry
                continue
            links += 1
            current, target_parts = _follow(current, next_entry, path, links)
            parts_left += target_parts
        return os.open(".", _DIRECTORY, dir_fd=current)
    except NotADirectoryError as error:
        raise AccessDenied(f"{path} is not a directory") from error
    finally:
        os.close(current)


def open_beneath(root: Path, path: Path) -> int:
    """A descriptor of the directory `path`, which must be `root` or inside it."""
    if not path.is_relative_to(root) or ".." in path.parts:
        raise AccessDenied(f"{path} is not in {root}")
    return open_below(open_real(root), path.relative_to(root))


def open_below(directory: int, path: Path) -> int:
    """Open the directory `path` below the open `directory`, and close the latter. Symlinks are not
    followed."""
    for part in path.parts:
        try:
            below = os.open(part, _DIRECTORY, dir_fd=directory)
        except OSError as error:
            raise _open_error(path, error) from error
        finally:
            os.close(directory)
        directory = below
    return directory


def open_folder(roots: Sequence[Path], folder: Path) -> int:
    """Open a host folder that may be a workspace."""
    for root in roots:
        if folder.is_relative_to(root):
            return open_beneath(root, folder)
    named = ", ".join(map(str, roots)) or "none is set"
    raise AccessDenied(f"{folder} is not below any of the workspace_roots ({named})")


def make_dir(parent: int, name: str) -> int:
    """Open the directory `name` in the open directory `parent`, and create it if missing."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=parent)
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError as error:
        raise _open_error(Path(name), error) from error


def open_socket(directory: int, name: str) -> int:
    """Open the socket `name` in the open `directory`, and close the latter. A later rename has no
    effect."""
    try:
        found = os.open(name, _OPEN_PATH, dir_fd=directory)
    except OSError as error:
        raise _open_error(Path(name), error) from error
    finally:
        os.close(directory)
    if stat.S_ISSOCK(os.fstat(found).st_mode):
        return found
    os.close(found)
    raise AccessDenied(f"{name} is not a socket")


def hand_over(
    directory: int,
    uid: int,
    gid: int,
    may_take: Callable[[int], bool],
    *,
    check_entries: bool = False,
) -> None:
    """Give a tree to a user: change the owner of each entry whose current owner `may_take` allows.

    Returns at once if the directory itself already belongs to `uid`, because it was handed over
    before. With `check_entries`, the entries are checked anyway, because another user may have
    created entries since.
    """
    owner = os.fstat(directory).st_uid
    if owner == uid and not check_entries:
        return
    if owner not in (uid, os.geteuid()) and not may_take(owner):
        raise AccessDenied(
            f"{_name_of(directory)} belongs to the user {owner} and cannot be given to a session"
        )
    for opened, folders, others in trees.innermost_first(directory):
        for name in (*folders, *others):
            _hand_over_entry(name, opened, uid, gid, may_take)
    os.fchown(directory, uid, gid)  # the last step: it marks the whole tree as handed over


def _hand_over_entry(
    name: str, parent: int, uid: int, gid: int, may_take: Callable[[int], bool]
) -> None:
    """Check and change the same file, even if its name is replaced meanwhile."""
    entry = os.open(name, _OPEN_PATH, dir_fd=parent)
    try:
        owner = os.fstat(entry)
        if (owner.st_uid, owner.st_gid) == (uid, gid) or not may_take(owner.st_uid):
            return
        # `os.fchown` refuses O_PATH descriptors, and a symlink can have no other.
        if _libc.fchownat(entry, b"", uid, gid, _AT_EMPTY_PATH) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), name)
    finally:
        os.close(entry)


def _step(here: int, name: str, path: Path) -> int:
    try:
        return os.open(name, _OPEN_PATH, dir_fd=here)
    except OSError as error:
        raise _open_error(path, error) from error


def _follow(directory: int, link: int, path: Path, count: int) -> tuple[int, list[str]]:
    """The directory where a symlink's target starts, and the target's components, last first.

    Closes both descriptors.
    """
    try:
        _ensure_trusted(directory, link, path)
        if count > _MAX_LINKS:
            raise _open_error(path, OSError(errno.ELOOP, os.strerror(errno.ELOOP)))
        target = os.readlink("", dir_fd=link)
        start = os.open("/", _OPEN_PATH) if target.startswith("/") else os.dup(directory)
    finally:
        os.close(link)
    os.close(directory)
    return start, [part for part in reversed(target.split("/")) if part not in ("", ".")]


def _ensure_trusted(directory: int, link: int, path: Path) -> None:
    trusted = {0, os.geteuid()}
    parent, link_stat = os.fstat(directory), os.fstat(link)
    is_shared = parent.st_mode & 0o022 and not parent.st_mode & stat.S_ISVTX
    if link_stat.st_uid not in trusted or parent.st_uid not in trusted or is_shared:
        raise AccessDenied(
            f"{path} contains the symlink {_name_of(link)}, which the user {link_stat.st_uid} "
            "could redirect; use the real path of the directory in the settings, or a bind mount "
            "instead of the link"
        )


def _name_of(descriptor: int) -> Path:
    return Path(f"/proc/self/fd/{descriptor}").readlink()


def _open_error(path: Path, error: OSError) -> UsageError:
    if isinstance(error, FileNotFoundError):
        return NoSuchPath(f"{path} does not exist")
    return AccessDenied(f"{path} cannot be used: {error.strerror}; links are not followed")
