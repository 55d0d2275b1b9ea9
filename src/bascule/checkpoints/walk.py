"""Finds every file of a workspace and its stat data, without following links.

Each directory is opened relative to its parent with `O_NOFOLLOW`, so a directory that is
replaced by a link meanwhile is not followed. Entries named `.git` are skipped. Every file needs a
`stat` call, because the times of a directory do not show that a file in it was rewritten in place.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bascule.core.errors import CheckpointsUnavailable

from .versions import FileStat, Listing, join

GIT = ".git"
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
GENERATED = frozenset(
    [
        *("node_modules", "bower_components", "__pycache__", ".tox", ".nox", ".mypy_cache"),
        *(".pytest_cache", ".ruff_cache", ".gradle", ".terraform", ".parcel-cache", ".turbo"),
    ]
)
"""Directories that a package manager or build tool generates and can generate again."""
_MAX_DEPTH = 300
"""Maximum depth of directories. Each level needs a descriptor and two stack frames."""
_MARKERS = frozenset(["CACHEDIR.TAG", "pyvenv.cfg"])
"""Files that mark a directory as a cache or a virtual environment."""
_KIND_BITS = 0o170000
"""The bits of a mode that encode the kind of file."""
_EMPTY: dict[str, FileStat] = {}
FoundTree = dict[str, dict[str, FileStat]]


@dataclass(slots=True)
class Walk:
    """The result of a walk."""

    tree: FoundTree = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    """Directories that were not entered, by path, with the reason."""
    repositories: list[str] = field(default_factory=list)
    """Directories that contain a `.git`."""


def open_below(root: int, directory: str) -> int:
    """Open a directory by a path relative to `root`, without following links."""
    current = os.open(".", _DIRECTORY_FLAGS, dir_fd=root)
    for name in directory.split("/") if directory else ():
        try:
            below = os.open(name, _DIRECTORY_FLAGS, dir_fd=current)
        finally:
            os.close(current)
        current = below
    return current


def open_workspace(workspace: Path) -> int:
    return os.open(workspace, _DIRECTORY_FLAGS & ~os.O_NOFOLLOW)


def walk(
    root: int,
    start: str = "",
    *,
    known: FoundTree,
    entries: int,
    tracked: Callable[[str], bool],
) -> Walk:
    """Walk everything below `start`, a directory of the open workspace `root`.

    A directory in `known` is entered even if it now looks generated, because otherwise its stored
    files would seem deleted. A directory in which git tracks files (`tracked`) is entered too.
    Raises `CheckpointsUnavailable` if there are more than `entries` entries.
    """
    descriptor = open_below(root, start)
    try:
        return _Walker(os.fstat(root).st_dev, known, entries, tracked).run(descriptor, start)
    finally:
        os.close(descriptor)


class _Walker:
    def __init__(
        self,
        device: int,
        known: FoundTree,
        entries: int,
        tracked: Callable[[str], bool],
    ) -> None:
        self._device, self._known, self._tracked = device, known, tracked
        self._limit = self._room = entries
        self._found = Walk()

    def run(self, descriptor: int, start: str) -> Walk:
        self._enter(descriptor, start)
        return self._found

    def _enter(self, descriptor: int, directory: str) -> None:
        known = self._known.get(directory, _EMPTY)
        listing: dict[str, FileStat] = {}
        below = []
        is_same = True
        # This loop runs once for each file of the workspace, so it avoids calls and new objects.
        old_of, new = known.get, tuple.__new__
        with os.scandir(descriptor) as scan:
            for entry in scan:
                name = entry.name
                if name == GIT:
                    self._found.repositories.append(directory)
                    continue
                try:
                    found = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # removed since the directory was read
                mode = found.st_mode
                old = old_of(name)
                # The indexes are those of the fields of `FileStat`; access by name is slower.
                if (
                    old is not None
                    and old[3] == found.st_ctime_ns
                    and old[2] == found.st_mtime_ns
                    and old[0] == mode
                    and old[1] == found.st_size
                    and old[4] == found.st_ino
                    and old[5] == found.st_uid
                    and old[6] == found.st_gid
                ):
                    listing[name] = old
                else:
                    is_same = False
                    listing[name] = new(
                        FileStat,
                        (
                            mode,
                            found.st_size,
                            found.st_mtime_ns,
                            found.st_ctime_ns,
                            found.st_ino,
                            found.st_uid,
                            found.st_gid,
                        ),
                    )
                if mode & _KIND_BITS == stat.S_IFDIR:
                    below.append(name)
        self._room -= len(listing)
        if self._room < 0:
            raise CheckpointsUnavailable(
                f"The workspace has more than {self._limit:,} files and directories, the limit "
                "for checkpoints. Open a smaller folder, or raise the limit `entries`"
            )
        if directory and self._is_generated(directory, listing):
            return
        # Reuse the old object if nothing differs: `differing` then skips the directory.
        is_same = is_same and len(listing) == len(known) and directory in self._known
        self._found.tree[directory] = known if is_same else listing
        for name in below:
            self._descend(descriptor, directory, name)

    def _descend(self, parent_fd: int, directory: str, name: str) -> None:
        path = join(directory, name)
        if name in GENERATED and path not in self._known and not self._tracked(path):
            self._found.skipped[path] = "generated by a tool"
            return
        if path.count("/") >= _MAX_DEPTH:
            self._found.skipped[path] = f"below {_MAX_DEPTH} other directories"
            return
        try:
            descriptor = os.open(name, _DIRECTORY_FLAGS, dir_fd=parent_fd)
        except FileNotFoundError:
            return
        except OSError as error:
            self._found.skipped[path] = (error.strerror or str(error)).lower()
            return
        try:
            if os.fstat(descriptor).st_dev != self._device:
                self._found.skipped[path] = "on another file system"
            else:
                self._enter(descriptor, path)
        finally:
            os.close(descriptor)

    def _is_generated(self, directory: str, listing: Listing) -> bool:
        if _MARKERS.isdisjoint(listing) or directory in self._known or self._tracked(directory):
            return False
        self._found.skipped[directory] = "generated by a tool"
        return True
