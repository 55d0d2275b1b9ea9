"""Merges the changes of a fork into the workspace from which the fork was made.

Every path is read, merged and replaced on its own. A new file is written completely and then
renamed over the old file, if the old file has not changed since it was read. Paths in conflict are
not changed. All functions block.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from .change_set import PathChange, PathResult
from .merge_journal import MergeJournal
from .merge_rules import Merge, PathVersion, merge_versions
from .tree_files import FileTooLong, opened_below, opened_tree, read_version

_NEW_FILE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_Identity = tuple[int, int, int, int]


class _NotApplied(Exception):
    """The path is not changed; the message has the reason."""


class _HasOtherFiles(_NotApplied):
    """A directory that the fork removed is not empty in the workspace."""


def apply_changes(
    workspace: Path,
    changes: Iterable[PathChange],
    *,
    dry_run: bool = False,
    journal: MergeJournal | None = None,
) -> Sequence[PathResult]:
    """Merge the changes, which must be sorted by `merge_order`. The results are sorted by path.

    If `changes` is an iterator that reads one change at a time, only one change is in memory. With
    `dry_run`, nothing is changed; the results say what would be done. Without a `journal`, a killed
    merge leaves a temporary file.
    """
    journal = journal or MergeJournal()
    with opened_tree(workspace) as root:
        results = [_apply(root, change, journal, dry_run=dry_run) for change in changes]
    return sorted(results, key=lambda each: each.path)


def merge_order(change: PathChange) -> tuple[int, int, str]:
    """The sort key of a change: files are removed first, then directories, the innermost first.
    All other changes follow."""
    is_removal = change.theirs is None
    is_directory = change.base is not None and change.base.kind == "directory"
    if is_removal and not is_directory:
        return 0, 0, change.path
    if is_removal:
        return 1, -change.path.count("/"), change.path
    return 2, 0, change.path


def _apply(root: int, change: PathChange, journal: MergeJournal, *, dry_run: bool) -> PathResult:
    try:
        seen = _identity(root, change.path)
        ours = read_version(root, change.path)
        merge = _apply_choice(change, merge_versions(change.base, ours, change.theirs))
        if merge is None:
            return PathResult(change.path, "kept")
        if merge.outcome == "conflict":
            return _conflict(change.path, merge)
        if merge.outcome != "same" and not dry_run:
            _write_version(root, change.path, merge.version, seen, journal)
    except FileTooLong as error:
        return PathResult(change.path, "conflict", str(error))
    except _HasOtherFiles as error:
        # The fork removed the directory, but here it has other files. Nothing is lost if it stays.
        outcome: Literal["kept", "conflict"] = "kept" if change.theirs is None else "conflict"
        return PathResult(change.path, outcome, str(error))
    except _NotApplied as error:
        return PathResult(change.path, "conflict", str(error))
    except OSError as error:
        return PathResult(change.path, "conflict", (error.strerror or str(error)).lower())
    return PathResult(change.path, merge.outcome)


def _apply_choice(change: PathChange, merge: Merge) -> Merge | None:
    """The merge after the user's choice; None: the workspace's version stays."""
    if merge.outcome != "conflict" or not change.choice:
        return merge
    return Merge("taken", change.theirs) if change.choice == "fork" else None


def _conflict(path: str, merge: Merge) -> PathResult:
    lines = tuple((each.ours.start + 1, each.ours.end) for each in merge.lines)
    return PathResult(path, "conflict", merge.reason, lines)


def _write_version(
    root: int,
    path: str,
    version: PathVersion | None,
    seen: _Identity | None,
    journal: MergeJournal,
) -> None:
    directory, _, name = path.rpartition("/")
    if version is not None:
        _make_parents(root, directory)
    with opened_below(root, directory) as parent_fd:
        if version is None:
            _remove(parent_fd, name, seen)
        elif version.kind == "directory":
            _make_directory(parent_fd, name, seen)
        else:
            _replace(parent_fd, name, version, seen, journal.new_temporary_name(directory))


def _make_parents(root: int, directory: str) -> None:
    parts = directory.split("/") if directory else []
    for count in range(1, len(parts) + 1):
        directory_above, name = "/".join(parts[: count - 1]), parts[count - 1]
        with opened_below(root, directory_above) as opened, suppress(FileExistsError):
            os.mkdir(name, dir_fd=opened)


def _remove(parent_fd: int, name: str, seen: _Identity | None) -> None:
    _ensure_same(parent_fd, name, seen)
    if stat.S_ISDIR(os.stat(name, dir_fd=parent_fd, follow_symlinks=False).st_mode):
        _remove_directory(parent_fd, name)
    else:
        os.unlink(name, dir_fd=parent_fd)


def _remove_directory(parent_fd: int, name: str) -> None:
    try:
        os.rmdir(name, dir_fd=parent_fd)
    except OSError as error:
        raise _HasOtherFiles("the directory has other files here") from error


def _make_directory(parent_fd: int, name: str, seen: _Identity | None) -> None:
    if seen is not None:
        _remove(parent_fd, name, seen)
    os.mkdir(name, dir_fd=parent_fd)


def _replace(
    parent_fd: int, name: str, version: PathVersion, seen: _Identity | None, temporary: str
) -> None:
    try:
        if version.kind == "link":
            os.symlink(version.content, os.fsencode(temporary), dir_fd=parent_fd)
        else:
            _write(parent_fd, temporary, version)
        _ensure_same(parent_fd, name, seen)
        if seen is not None and stat.S_ISDIR(seen[0]):
            _remove_directory(parent_fd, name)
        os.rename(temporary, name, src_dir_fd=parent_fd, dst_dir_fd=parent_fd)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=parent_fd)
        raise


def _write(parent_fd: int, name: str, version: PathVersion) -> None:
    descriptor = os.open(name, _NEW_FILE_FLAGS, 0o600, dir_fd=parent_fd)
    with os.fdopen(descriptor, "wb") as file:
        file.write(version.content)
        os.fchmod(descriptor, version.mode)


def _ensure_same(parent_fd: int, name: str, seen: _Identity | None) -> None:
    """Ensure that nobody changed the path since it was read."""
    if _stat(parent_fd, name) != seen:
        raise _NotApplied("it was changed at this moment; merge again")


def _identity(root: int, path: str) -> _Identity | None:
    directory, _, name = path.rpartition("/")
    try:
        with opened_below(root, directory) as parent_fd:
            return _stat(parent_fd, name)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _stat(parent_fd: int, name: str) -> _Identity | None:
    try:
        found = os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):  # size and time of a directory change with its entries
        return found.st_mode, found.st_ino, 0, 0
    return found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns
