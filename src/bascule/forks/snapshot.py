"""Takes a snapshot of a workspace, from which forks are created.

A snapshot is a directory that nobody changes: `tree/` has the files, `snapshot.json` the facts. The
snapshot is the base of every later merge, so no program of a fork may reach it. All functions
block.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bascule.checkpoints.git_index import parse_index
from bascule.core.errors import StorageFailed

from .file_copy import FileCopier
from .repository_copy import CannotCopyRepository, copy_repository, head_commit
from .secret_files import is_secret
from .tree_files import (
    DIRECTORY,
    GIT,
    MAX_DEPTH,
    MAX_FILES,
    MAX_PATH_BYTES,
    REGULAR,
    Entry,
    EntryCount,
    Tracked,
    is_too_deep,
    list_tree,
    opened_tree,
    scan_directory,
)

_TREE: Final = "tree"
_FACTS: Final = "snapshot.json"
_MAX_INDEX_BYTES: Final = 64 << 20
"""Maximum bytes of git's index. A larger index counts as empty: no path is known to be tracked."""
_OTHER_KIND: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO})
"""Errors of opening a path that was removed, or replaced by another kind of file."""


@dataclass(slots=True)
class _Facts:
    left_out: dict[str, str] = field(default_factory=dict)
    heads: dict[str, str] = field(default_factory=dict)
    tracked: set[str] = field(default_factory=set)
    files: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot on disk."""

    directory: Path
    left_out: Mapping[str, str]
    """Paths that were not copied, with the reasons."""
    heads: Mapping[str, str]
    """The commit of HEAD of each repository, by the directory that contains its `.git`."""
    tracked: Tracked
    files: int

    @property
    def tree(self) -> Path:
        return self.directory / _TREE

    @classmethod
    def read(cls, directory: Path) -> Snapshot:
        """Raises `StorageFailed` if the snapshot is missing or was not finished."""
        try:
            facts: dict[str, Any] = json.loads((directory / _FACTS).read_text())
        except (OSError, ValueError) as error:
            raise StorageFailed(f"The snapshot {directory.name} cannot be read: {error}") from error
        return cls(
            directory,
            facts["left_out"],
            facts["heads"],
            Tracked(frozenset(facts["tracked"])),
            facts["files"],
        )

    def entries(self, *, with_ignored: bool = False) -> dict[str, Entry]:
        with opened_tree(self.tree) as root:
            tracked = None if with_ignored else self.tracked
            # No maximum: the files were counted when the snapshot was taken.
            return list_tree(root, tracked, max_files=None).entries


def take_snapshot(
    workspace: Path,
    directory: Path,
    *,
    with_secrets: bool = False,
    max_files: int | None = MAX_FILES,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Snapshot:
    """Copy a workspace into the new `directory`. Raises `InterruptedError` when `is_stopped`
    returns True, and `QuotaExceeded` above `max_files` files and directories.

    `left_out` lists the paths that are not copied: files with names of secrets, unless git tracks
    them or `with_secrets` is set; private files of other users, and files that this process
    may not read; other file systems; sockets, pipes and devices.
    """
    tree = directory / _TREE
    tree.mkdir(mode=0o700, parents=True)
    facts = _Facts()
    with opened_tree(workspace) as source, opened_tree(tree) as target:
        count = EntryCount(max_files)
        copier = _SnapshotCopier(source, facts, count, is_stopped, with_secrets=with_secrets)
        copier.copy(source, target)
    # Written last, because this file marks the snapshot as complete.
    text = json.dumps(
        {
            "left_out": facts.left_out,
            "heads": facts.heads,
            "tracked": sorted(_with_parents(facts.tracked)),
            "files": facts.files,
        }
    )
    (directory / _FACTS).write_text(text)
    return Snapshot.read(directory)


@dataclass(frozen=True, slots=True)
class _Level:
    """A directory that is being copied. Owns its two descriptors."""

    source: int
    target: int
    path: str
    entries: Iterator[os.DirEntry[str]]

    def close(self) -> None:
        os.close(self.source)
        os.close(self.target)


class _SnapshotCopier:
    def __init__(
        self,
        source: int,
        facts: _Facts,
        count: EntryCount,
        is_stopped: Callable[[], bool],
        *,
        with_secrets: bool,
    ) -> None:
        found = os.fstat(source)
        self._owner, self._device = found.st_uid, found.st_dev
        self._facts = facts
        self._count = count
        self._is_stopped = is_stopped
        self._with_secrets = with_secrets
        self._copier = FileCopier(self._owner)

    def copy(self, source: int, target: int) -> None:
        """Copy everything below `source`. Not recursive, because a session may nest directories
        deeper than Python's stack."""
        levels = [self._level(os.dup(source), os.dup(target), "")]
        try:
            while levels:
                here = levels[-1]
                if (entry := next(here.entries, None)) is None:
                    self._finish(here)
                    levels.pop().close()
                elif (below := self._copy_entry(here, entry)) is not None:
                    levels.append(below)
        finally:
            for each in levels:
                each.close()

    def _level(self, source: int, target: int, path: str) -> _Level:
        """Begin to copy a directory. Takes ownership of the descriptors, even if this fails."""
        try:
            if self._is_stopped():
                raise InterruptedError(errno.EINTR, "the copy was stopped")
            found = scan_directory(source, self._count, len(path))
            entries = sorted(found, key=lambda entry: entry.name)
            if any(entry.name == GIT for entry in entries):
                self._copy_git(source, target, path)  # first, to learn which files are tracked
        except BaseException:
            os.close(source)
            os.close(target)
            raise
        rest = [entry for entry in entries if entry.name != GIT]
        return _Level(source, target, path, iter(rest))

    def _finish(self, level: _Level) -> None:
        """Set the mode and times of a copied directory, after its entries were created."""
        found = os.fstat(level.source)
        if level.path:
            os.fchmod(level.target, stat.S_IMODE(found.st_mode) & 0o777 | 0o700)
        os.utime(level.target, ns=(found.st_atime_ns, found.st_mtime_ns))

    def _copy_entry(self, parent: _Level, entry: os.DirEntry[str]) -> _Level | None:
        """Copy a file or link. A directory is created and returned; the caller copies its
        entries."""
        path = f"{parent.path}/{entry.name}" if parent.path else entry.name
        try:
            found = entry.stat(follow_symlinks=False)
            if reason := self._reason_to_leave_out(path, found):
                self._facts.left_out[path] = reason
            elif stat.S_ISDIR(found.st_mode):
                return self._enter_directory(parent, entry.name, path)
            else:
                self._copy_file(parent, entry.name, found)
        except FileNotFoundError:
            pass  # removed meanwhile
        except PermissionError:
            self._facts.left_out[path] = "it may not be read"
        except OSError as error:
            if error.errno not in _OTHER_KIND:
                raise
            self._facts.left_out[path] = "it was replaced while it was copied"
        return None

    def _copy_file(self, parent: _Level, name: str, found: os.stat_result) -> None:
        if stat.S_ISLNK(found.st_mode):
            os.symlink(os.readlink(name, dir_fd=parent.source), name, dir_fd=parent.target)
            times = found.st_atime_ns, found.st_mtime_ns
            os.utime(name, ns=times, dir_fd=parent.target, follow_symlinks=False)
        else:
            self._copier.copy(parent.source, name, parent.target)
            self._facts.files += 1

    def _enter_directory(self, parent: _Level, name: str, path: str) -> _Level | None:
        source = os.open(name, DIRECTORY, dir_fd=parent.source)
        try:
            if os.fstat(source).st_dev != self._device:
                self._facts.left_out[path] = "on another file system"
                os.close(source)
                return None
            os.mkdir(name, 0o700, dir_fd=parent.target)
            target = os.open(name, DIRECTORY, dir_fd=parent.target)
        except BaseException:
            os.close(source)
            raise
        return self._level(source, target, path)

    def _reason_to_leave_out(self, path: str, found: os.stat_result) -> str:
        kind = stat.S_IFMT(found.st_mode)
        if kind not in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR):
            return "not a file, directory or link"
        if is_too_deep(f"{path}/"):
            return (
                f"below {MAX_DEPTH} other directories, or its path is longer than "
                f"{MAX_PATH_BYTES} bytes"
            )
        if is_secret(path) and not self._with_secrets and path not in self._facts.tracked:
            return "its name is that of a secret"
        # A hub with the rights of root must not show a session files that its user cannot read.
        is_foreign = found.st_uid != self._owner and kind != stat.S_IFLNK
        readable = 0o005 if kind == stat.S_IFDIR else 0o004
        if is_foreign and found.st_mode & readable != readable:
            return "it belongs to another user"
        return ""

    def _copy_git(self, source: int, target: int, path: str) -> None:
        git_path = f"{path}/{GIT}" if path else GIT
        try:
            git_dir = os.open(GIT, DIRECTORY, dir_fd=source)
        except OSError:
            self._facts.left_out[git_path] = "its git repository is elsewhere"
            return
        try:
            os.mkdir(GIT, 0o700, dir_fd=target)
            created = os.open(GIT, DIRECTORY, dir_fd=target)
            try:
                copy_repository(git_dir, created, self._copier, self._count)
                self._record_repository(created, path)
            finally:
                os.close(created)
        except CannotCopyRepository as error:
            shutil.rmtree(GIT, dir_fd=target)
            self._facts.left_out[git_path] = str(error)
        except PermissionError:
            shutil.rmtree(GIT, dir_fd=target)
            self._facts.left_out[git_path] = "its git repository has files of another user"
        except OSError as error:
            if error.errno not in _OTHER_KIND:
                raise
            shutil.rmtree(GIT, dir_fd=target)
            self._facts.left_out[git_path] = "its .git is not a repository"
        finally:
            os.close(git_dir)

    def _record_repository(self, git_dir: int, path: str) -> None:
        self._facts.heads[path] = head_commit(git_dir)
        try:
            descriptor = os.open("index", REGULAR, dir_fd=git_dir)
        except FileNotFoundError:
            return
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(_MAX_INDEX_BYTES + 1)
        names = parse_index(content) if len(content) <= _MAX_INDEX_BYTES else {}
        prefix = f"{path}/" if path else ""
        self._facts.tracked |= {prefix + name for name in names if name.count("/") < MAX_DEPTH}


def _with_parents(paths: set[str]) -> set[str]:
    found = set(paths)
    for path in paths:
        parent = path.rpartition("/")[0]
        while parent and parent not in found:
            found.add(parent)
            parent = parent.rpartition("/")[0]
    return found
