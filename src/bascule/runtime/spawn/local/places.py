"""The directories of a session, opened one step at a time so that no link leads elsewhere.

A warden with the rights of root does here what somebody without them asks. So it is told names
and settles itself where they lead: each step is opened without following links, and what is done
afterwards is done to what was opened.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from bascule.core.errors import AccessDenied, NoSuchPath, UsageError
from bascule.runtime.spawn import trees

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_beneath(root: Path, path: Path) -> int:
    """A descriptor of the directory `path`, which has to be in `root`, or be it."""
    if not path.is_relative_to(root) or ".." in path.parts:
        raise AccessDenied(f"{path} is not in {root}")
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in path.relative_to(root).parts:
        try:
            below = os.open(part, _DIRECTORY, dir_fd=descriptor)
        except OSError as error:
            raise _refused(path, error) from error
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def open_folder(roots: Sequence[Path], folder: Path) -> int:
    """A folder of the host that may be a workspace."""
    for root in roots:
        if folder.is_relative_to(root):
            return open_beneath(root, folder)
    named = ", ".join(map(str, roots)) or "none is set"
    raise AccessDenied(f"{folder} is in none of the workspace_roots ({named})")


def make_dir(parent: int, name: str) -> int:
    """A directory in the one that is open, made if it is not there."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=parent)
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError as error:
        raise _refused(Path(name), error) from error


def hand_over(
    directory: int, uid: int, gid: int, may_take: Callable[[int], bool], *, look_on: bool = False
) -> None:
    """Let all of it be that user's, where it is not yet and `may_take` its present owner's.

    Looks no further when the directory itself is theirs already: it was handed over before. Unless
    it is to `look_on`: somebody else may have made something in there since.
    """
    if os.fstat(directory).st_uid == uid and not look_on:
        return
    for opened, folders, others in trees.innermost_first(directory):
        for name in (*folders, *others):
            owner = os.stat(name, dir_fd=opened, follow_symlinks=False)
            if (owner.st_uid, owner.st_gid) != (uid, gid) and may_take(owner.st_uid):
                os.chown(name, uid, gid, dir_fd=opened, follow_symlinks=False)
    os.fchown(directory, uid, gid)  # last: only now is it done


def _refused(path: Path, error: OSError) -> UsageError:
    if isinstance(error, FileNotFoundError):
        return NoSuchPath(f"{path} is not there")
    return AccessDenied(f"{path} cannot be used: {error.strerror}; links are not followed")
