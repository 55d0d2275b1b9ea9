"""Unpacks an untrusted archive: all of it or nothing, and only inside the destination.

All entries are checked before anything is written. They are unpacked into a temporary directory
inside the destination and, when complete, moved into place file by file. Nothing is written through
a symbolic link, whether it is in the archive or existed before. Files keep their permission bits
except set-user-ID, set-group-ID and sticky. Links must stay inside the destination.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from bascule.core.errors import InvalidArchive

from .paths import FileOwner, make_directory
from .staging import write_all

_BLOCK_BYTES = 1 << 20
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_DEPTH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveEntry:
    """One entry of a zip or tar."""

    name: str
    """The unchanged name in the archive, for messages."""
    parts: tuple[str, ...]
    """The components of its path; empty for the destination itself."""
    kind: int
    """`S_IFREG`, `S_IFDIR` or `S_IFLNK`."""
    mode: int
    size: int
    open: Callable[[], IO[bytes]]
    """Opens the content of a file."""
    target: str = ""
    """Target of a symbolic link."""
    same_as: tuple[str, ...] = ()
    """For a hard link: the path of the earlier entry that it links to."""

    @property
    def parent(self) -> tuple[str, ...]:
        """The components of the path of its directory."""
        return self.parts[:-1]

    @property
    def basename(self) -> str:
        return self.parts[-1]


def safe_parts(name: str) -> tuple[str, ...]:
    """Split an entry's path. Raises `InvalidArchive` if it leads out of the destination."""
    if not name or "\0" in name:
        raise InvalidArchive(f"{name!r} in the archive is not a valid name")
    if name.startswith(("/", "\\")) or ".." in re.split(r"[/\\]", name):
        raise InvalidArchive(f"{name!r} in the archive would leave the destination")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if len(parts) > _MAX_DEPTH:
        raise InvalidArchive(f"{name[:100]!r}… in the archive is nested too deeply")
    return parts


class Archive:
    """The entries of an archive, checked before anything is written."""

    def __init__(self, entries: Sequence[ArchiveEntry]) -> None:
        self._entries = [entry for entry in entries if entry.parts]
        _ensure_tree(self._entries)
        for entry in self._entries:
            if entry.kind == stat.S_IFLNK:
                _ensure_link_inside(entry)

    def paths(self) -> list[str]:
        """The paths of all entries, relative to the destination."""
        return ["/".join(entry.parts) for entry in self._entries]

    def unpack(
        self,
        destination: int,
        owner: FileOwner | None,
        on_entry: Callable[[int, int], None] = lambda _done, _of: None,
    ) -> None:
        """Unpack into an open directory, and replace files that exist there."""
        _ensure_no_clash(self._entries, destination)
        with _stage(destination) as stage:
            staged, final = _Tree(stage, owner), _Tree(destination, owner)
            for number, entry in enumerate(self._entries, start=1):
                _extract(entry, staged)
                on_entry(number, len(self._entries))
            for entry in self._entries:
                final.move_from(staged, entry)


def _extract(entry: ArchiveEntry, tree: _Tree) -> None:
    if entry.kind == stat.S_IFDIR:
        tree.make(entry.parts)
        return
    tree.make(entry.parent)
    with _below(tree.directory, entry.parent) as directory:
        assert directory is not None
        if entry.same_as:
            tree.link(entry.same_as, entry.basename, directory)
            return
        if entry.kind == stat.S_IFLNK:
            os.symlink(entry.target, entry.basename, dir_fd=directory)
        else:
            _extract_file(entry, directory)
        tree.change_owner(entry.basename, directory)


def _extract_file(entry: ArchiveEntry, directory: int) -> None:
    descriptor = os.open(entry.basename, _NEW_FILE_FLAGS, entry.mode, dir_fd=directory)
    try:
        with entry.open() as content:
            while block := content.read(_BLOCK_BYTES):
                write_all(descriptor, block)
    finally:
        os.close(descriptor)


class _Tree:
    """A directory tree that receives entries: the temporary directory or the destination."""

    def __init__(self, directory: int, owner: FileOwner | None) -> None:
        self.directory = directory
        self._owner = owner
        self._made: set[tuple[str, ...]] = set()

    def make(self, parts: tuple[str, ...]) -> None:
        if not parts or parts in self._made:
            return
        self.make(parts[:-1])
        with _below(self.directory, parts[:-1]) as above:
            assert above is not None
            make_directory(above, parts[-1], self._owner)
        self._made.add(parts)

    def link(self, target: tuple[str, ...], name: str, directory: int) -> None:
        """Create a hard link `name` in `directory` to the file `target` of this tree."""
        *parent, target_name = target
        with _below(self.directory, parent) as source:
            os.link(
                target_name, name, src_dir_fd=source, dst_dir_fd=directory, follow_symlinks=False
            )

    def change_owner(self, name: str, directory: int) -> None:
        if self._owner is not None:
            uid, gid = self._owner.uid, self._owner.gid
            os.chown(name, uid, gid, dir_fd=directory, follow_symlinks=False)

    def move_from(self, other: _Tree, entry: ArchiveEntry) -> None:
        """Move an entry from the same path in another tree."""
        if entry.kind == stat.S_IFDIR:
            self.make(entry.parts)
            return
        self.make(entry.parent)
        with (
            _below(other.directory, entry.parent) as source,
            _below(self.directory, entry.parent) as target,
        ):
            os.rename(entry.basename, entry.basename, src_dir_fd=source, dst_dir_fd=target)


def _ensure_tree(entries: Sequence[ArchiveEntry]) -> None:
    """Raise `InvalidArchive` if a file name occurs twice, or an entry is below a file or link."""
    leaves: set[tuple[str, ...]] = set()
    for entry in entries:
        if entry.kind != stat.S_IFDIR:
            if entry.parts in leaves:
                raise InvalidArchive(f"{entry.name!r} is in the archive twice")
            leaves.add(entry.parts)
    for entry in entries:
        # A directory must not have the path of a file either, so its own path is checked too.
        stop = len(entry.parts) + (entry.kind == stat.S_IFDIR)
        if any(entry.parts[:end] in leaves for end in range(1, stop)):
            raise InvalidArchive(f"{entry.name!r} is below a file or link of the archive")


def _ensure_link_inside(entry: ArchiveEntry) -> None:
    """Allow `..` only at the start of a link's target, and no higher than the destination.

    All links of the archive obey this rule, so a link that leads through others stays inside too.
    """
    target = entry.target
    parts = [part for part in target.split("/") if part not in ("", ".")]
    climbs = next((n for n, part in enumerate(parts) if part != ".."), len(parts))
    outside = target.startswith("/") or climbs > len(entry.parent) or ".." in parts[climbs:]
    if not target or outside or "\0" in target:
        raise InvalidArchive(
            f"The link {entry.name!r} in the archive leads to {target!r}, outside the archive"
        )


def _ensure_no_clash(entries: Sequence[ArchiveEntry], destination: int) -> None:
    """Raise if a file would replace a directory or the reverse: the move would stop half way."""
    for entry in entries:
        with _below(destination, entry.parent) as directory:
            if directory is None:
                continue
            try:
                found = os.stat(entry.basename, dir_fd=directory, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(found.st_mode) != (entry.kind == stat.S_IFDIR):
                raise InvalidArchive(
                    f"{entry.name!r} in the archive has another type than the existing file"
                )


@contextmanager
def _below(directory: int, parts: Sequence[str]) -> Iterator[int | None]:
    """Open the directory `parts` below `directory`, never through a link; None if it does not
    exist."""
    held = os.open(".", _DIRECTORY_FLAGS, dir_fd=directory)
    try:
        yield held if _descend(held, parts) else None
    finally:
        os.close(held)


def _descend(held: int, parts: Sequence[str]) -> bool:
    """Move the descriptor `held` down to the directory `parts`; False if it does not exist."""
    for part in parts:
        try:
            below = os.open(part, _DIRECTORY_FLAGS, dir_fd=held)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            path = "/".join(parts)
            raise InvalidArchive(f"{path!r} in the archive leads through a file or link") from error
        os.dup2(below, held, inheritable=False)
        os.close(below)
    return True


@contextmanager
def _stage(destination: int) -> Iterator[int]:
    name = f".bascule-{secrets.token_hex(6)}.tmp"
    os.mkdir(name, 0o700, dir_fd=destination)
    try:
        stage = os.open(name, _DIRECTORY_FLAGS, dir_fd=destination)
        try:
            yield stage
        finally:
            os.close(stage)
    finally:
        shutil.rmtree(name, dir_fd=destination)
