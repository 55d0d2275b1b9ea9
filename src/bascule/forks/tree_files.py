"""Lists and reads the files of a tree that other processes may change. All functions block.

Every directory is opened relative to its parent, without following links. So a link in the tree
cannot lead a privileged caller out of the tree. Entries named `.git` are skipped.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from bascule.checkpoints.walk import GENERATED
from bascule.core.errors import QuotaExceeded
from bascule.core.ignore_rules import IgnoreLevel, is_ignored, parse_rules

from .merge_rules import EntryKind, PathVersion

GIT: Final = ".git"
DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
REGULAR: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Flags to open a file. `O_NONBLOCK`: opening a pipe does not wait for a writer."""
MAX_FILE_BYTES: Final = 32 << 20
"""Maximum bytes of a file whose change can be merged."""
MAX_DEPTH: Final = 300
"""Maximum depth of directories; each level needs a descriptor."""
MAX_PATH_BYTES: Final = 3072
"""Maximum bytes of a path relative to the workspace. The kernel limits absolute paths to 4096."""
MAX_FILES: Final = 1_000_000
"""Default limit of files and directories in a tree that is copied or listed."""
_PATH_BYTES_PER_ENTRY: Final = 256
"""For every so many bytes of its path, an entry counts as one more entry."""
_IGNORE: Final = ".gitignore"
_MAX_IGNORE_BYTES: Final = 1 << 20


class FileTooLong(ValueError):
    """Raised for a file above `MAX_FILE_BYTES`."""


class EntryCount:
    """Counts the files and directories of one tree, up to a maximum; None: no maximum."""

    def __init__(self, max_entries: int | None) -> None:
        self._max_entries = max_entries
        self._found = 0

    def add_one(self, path_length: int = 0) -> None:
        """Count one entry. Raises `QuotaExceeded` above the maximum.

        Callers keep the paths in memory, so an entry with a long path counts as several entries.
        """
        self._found += 1 + path_length // _PATH_BYTES_PER_ENTRY
        if self._max_entries is not None and self._found > self._max_entries:
            raise QuotaExceeded(
                f"The workspace has more than {self._max_entries} files and directories, the limit "
                "for a fork; remove generated files, fork a session of a smaller folder, or raise "
                "the hub's setting `max_fork_files`",
                limit=self._max_entries,
                setting="max_fork_files",
            )


class Entry(NamedTuple):
    """The stat data of a path, which show whether the path changed."""

    mode: int
    size: int
    mtime_ns: int

    @property
    def kind(self) -> EntryKind:
        match stat.S_IFMT(self.mode):
            case stat.S_IFREG:
                return "file"
            case stat.S_IFLNK:
                return "link"
            case stat.S_IFDIR:
                return "directory"
            case _:
                return "other"

    def is_like(self, other: Entry) -> bool:
        """Whether two files are probably the same: a copy keeps permissions, size and time.

        Directories are always alike, because their times change with their entries.
        """
        if self.kind == other.kind == "directory":
            return True
        return self == other


UNREAD: Final = Entry(0, 0, 0)
"""A directory whose contents are not listed, because they are too deep."""


@dataclass(frozen=True, slots=True)
class Tracked:
    """The paths that git tracks, and the directories above them."""

    paths: frozenset[str] = frozenset()

    def __contains__(self, path: str) -> bool:
        return path in self.paths


@dataclass(slots=True)
class Listing:
    """The contents of a tree."""

    entries: dict[str, Entry] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    """Files and directories that `.gitignore` excludes or a tool generates; not in `entries`."""


@contextmanager
def opened_tree(root: Path) -> Iterator[int]:
    descriptor = os.open(root, DIRECTORY & ~os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def opened_below(root: int, directory: str) -> Iterator[int]:
    """Open a directory by its path relative to the open directory `root`, without following
    links."""
    current = os.dup(root)
    try:
        for name in directory.split("/") if directory else ():
            below = os.open(name, DIRECTORY, dir_fd=current)
            os.close(current)
            current = below
        yield current
    finally:
        os.close(current)


def list_tree(
    root: int, tracked: Tracked | None = None, *, max_files: int | None = MAX_FILES
) -> Listing:
    """List everything below an open directory. Raises `QuotaExceeded` above `max_files`.

    With `tracked`, leave out files that `.gitignore` excludes or that tools generate, unless git
    tracks them.
    """
    walk = _Walk(Listing(), os.fstat(root).st_dev, tracked, EntryCount(max_files))
    _list(root, "", walk, [])
    return walk.found


@dataclass(frozen=True, slots=True)
class _Walk:
    found: Listing
    device: int
    tracked: Tracked | None
    count: EntryCount


def _list(directory: int, path: str, walk: _Walk, levels: list[IgnoreLevel]) -> None:
    prefix = f"{path}/" if path else ""
    found, tracked = walk.found, walk.tracked
    below: list[str] = []
    names = [
        each for each in scan_directory(directory, walk.count, len(prefix)) if each.name != GIT
    ]
    if tracked is not None and any(entry.name == _IGNORE for entry in names):
        levels = [*_level(directory, len(prefix)), *levels]
    for entry in names:
        entry_path = prefix + entry.name
        try:
            seen = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue  # removed since the directory was read
        is_directory = stat.S_ISDIR(seen.st_mode)
        if not (is_directory or stat.S_ISREG(seen.st_mode) or stat.S_ISLNK(seen.st_mode)):
            continue  # pipes, sockets and devices are not part of a result
        if tracked is not None and _is_left_out(entry_path, is_directory, tracked, levels):
            found.ignored.append(entry_path)
            continue
        found.entries[entry_path] = Entry(
            seen.st_mode, 0 if is_directory else seen.st_size, seen.st_mtime_ns
        )
        if is_directory and is_too_deep(f"{entry_path}/"):
            found.entries[entry_path] = UNREAD
        elif is_directory:
            below.append(entry.name)
    for name in below:
        _list_below(directory, prefix + name, walk, levels)


def _list_below(parent: int, path: str, walk: _Walk, levels: list[IgnoreLevel]) -> None:
    try:
        opened = os.open(path.rpartition("/")[2], DIRECTORY, dir_fd=parent)
    except (FileNotFoundError, NotADirectoryError):
        return  # replaced since the directory was read
    try:
        if os.fstat(opened).st_dev == walk.device:
            _list(opened, path, walk, levels)
    finally:
        os.close(opened)


def is_too_deep(path: str) -> bool:
    """Whether a path is not read because of its depth or length."""
    return path.count("/") > MAX_DEPTH or len(os.fsencode(path)) > MAX_PATH_BYTES


def scan_directory(
    directory: int, count: EntryCount, path_length: int = 0
) -> list[os.DirEntry[str]]:
    """The entries of an open directory. Adds each of them to `count`. `path_length`: the length of
    the directory's path, if the caller keeps paths in memory."""
    found = []
    with os.scandir(directory) as scan:
        for entry in scan:
            count.add_one(path_length + len(entry.name))
            found.append(entry)
    return found


def _is_left_out(
    path: str, is_directory: bool, tracked: Tracked, levels: list[IgnoreLevel]
) -> bool:
    if path in tracked:
        return False
    if is_directory and path.rpartition("/")[2] in GENERATED:
        return True
    return is_ignored(levels, path, is_directory=is_directory)


def _level(directory: int, cut: int) -> list[IgnoreLevel]:
    try:
        content = _content(directory, _IGNORE, _MAX_IGNORE_BYTES)
    except (OSError, FileTooLong):
        return []
    rules = parse_rules(os.fsdecode(content))
    return [] if rules is None else [IgnoreLevel(rules, cut=cut)]


def read_version(root: int, path: str) -> PathVersion | None:
    """The present version of a path; None if the path does not exist. Raises `FileTooLong` and
    `OSError`."""
    directory, _, name = path.rpartition("/")
    try:
        with opened_below(root, directory) as above:
            return _version(above, name)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _version(parent: int, name: str) -> PathVersion | None:
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    match stat.S_IFMT(found.st_mode):
        case stat.S_IFDIR:
            return PathVersion("directory")
        case stat.S_IFLNK:
            return PathVersion("link", os.fsencode(os.readlink(name, dir_fd=parent)))
        case stat.S_IFREG:
            mode = stat.S_IMODE(found.st_mode) & 0o777
            return PathVersion("file", _content(parent, name, MAX_FILE_BYTES), mode)
        case _:
            return PathVersion("other")


def _content(parent: int, name: str, max_bytes: int) -> bytes:
    descriptor = os.open(name, REGULAR, dir_fd=parent)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileNotFoundError(name)
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise FileTooLong(f"larger than {max_bytes >> 20} MiB")
    return content


def differing(
    base: Mapping[str, Entry], now: Mapping[str, Entry]
) -> Iterator[tuple[str, Entry | None, Entry | None]]:
    """Paths whose stat data differ, sorted; a file may still have the same content."""
    for path in sorted(base.keys() | now.keys()):
        before, after = base.get(path), now.get(path)
        if before is None or after is None or not before.is_like(after):
            yield path, before, after
