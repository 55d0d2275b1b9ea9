"""Unpacking a zip from a stranger: all of it or nothing, and nowhere but where it was meant to go.

What the archive says is checked before anything is written; then it is unpacked into a directory
of its own inside the destination and, once whole, moved into place file by file. Nothing is
written through a link, be it in the archive or there before. Files keep their permission bits, but
for set-user-id and its like; a link is made when it stays inside the destination.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from bascule.core.errors import InvalidArchive

from .paths import Owner, make_directory
from .staging import NEW_FILE_MODE, write_all

_BLOCK = 1 << 20
_BELOW = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LINK = 4096
_MAX_DEPTH = 200


@dataclass(frozen=True, slots=True)
class UnpackLimits:
    entries: int = 200_000
    size: int = 8 << 30
    """Bytes of all files together, unpacked."""
    ratio: int = 200
    """Unpacked bytes per byte of archive, for what is larger than `free_size`."""
    free_size: int = 64 << 20


@contextmanager
def open_archive(stream: IO[bytes], limits: UnpackLimits) -> Iterator[Archive]:
    """An archive whose every entry has been looked at. Raises `InvalidArchive`, here or later."""
    length = stream.seek(0, os.SEEK_END)
    try:
        with _zip_file(stream) as file:
            yield Archive(file, length, limits)
    except (BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeDecodeError) as error:
        raise InvalidArchive(f"The zip is broken: {error}") from error


def _zip_file(stream: IO[bytes]) -> ZipFile:
    try:
        return ZipFile(stream)
    except (ValueError, OSError) as error:  # offsets that point nowhere, names in no encoding
        raise BadZipFile(str(error)) from error


class Archive:
    def __init__(self, file: ZipFile, length: int, limits: UnpackLimits) -> None:
        self._file = file
        _ensure_within(file.infolist(), length, limits)
        found = [_entry(info, length) for info in file.infolist()]
        self._entries = [entry for entry in found if entry.parts]
        _ensure_tree(self._entries)
        for entry in self._entries:
            if entry.kind == stat.S_IFLNK:
                _ensure_link_inside(entry, self._link_target(entry))

    def unpack(self, destination: int, owner: Owner | None) -> None:
        """Into an open directory, over what is there."""
        _ensure_no_clash(self._entries, destination)
        with _stage(destination) as stage:
            staged, final = _Tree(stage, owner), _Tree(destination, owner)
            for entry in self._entries:
                self._extract(entry, staged)
            for entry in self._entries:
                final.take_from(staged, entry)

    def _extract(self, entry: _Entry, tree: _Tree) -> None:
        if entry.kind == stat.S_IFDIR:
            tree.make(entry.parts)
            return
        tree.make(entry.above)
        with _below(tree.directory, entry.above) as directory:
            assert directory is not None
            if entry.kind == stat.S_IFLNK:
                os.symlink(self._link_target(entry), entry.name, dir_fd=directory)
            else:
                self._extract_file(entry, directory)
            tree.give(entry.name, directory)

    def _extract_file(self, entry: _Entry, directory: int) -> None:
        descriptor = os.open(entry.name, _NEW, entry.mode, dir_fd=directory)
        try:
            with self._file.open(entry.info) as content:
                while block := content.read(_BLOCK):
                    write_all(descriptor, block)
        finally:
            os.close(descriptor)

    def _link_target(self, entry: _Entry) -> str:
        if entry.info.file_size > _MAX_LINK:
            raise InvalidArchive(f"The link {entry.info.filename!r} in the zip is too long")
        return os.fsdecode(self._file.read(entry.info))


@dataclass(frozen=True, slots=True)
class _Entry:
    info: ZipInfo
    parts: tuple[str, ...]

    @property
    def above(self) -> tuple[str, ...]:
        return self.parts[:-1]

    @property
    def name(self) -> str:
        return self.parts[-1]

    @property
    def kind(self) -> int:
        """As in a file's mode; archives made elsewhere say nothing, and hold files."""
        if self.info.is_dir():
            return stat.S_IFDIR
        return stat.S_IFMT(self.info.external_attr >> 16) or stat.S_IFREG

    @property
    def mode(self) -> int:
        return (self.info.external_attr >> 16) & 0o777 or NEW_FILE_MODE


class _Tree:
    """Where entries go: the stage, and then the destination."""

    def __init__(self, directory: int, owner: Owner | None) -> None:
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

    def give(self, name: str, directory: int) -> None:
        if self._owner is not None:
            uid, gid = self._owner.uid, self._owner.gid
            os.chown(name, uid, gid, dir_fd=directory, follow_symlinks=False)

    def take_from(self, other: _Tree, entry: _Entry) -> None:
        if entry.kind == stat.S_IFDIR:
            self.make(entry.parts)
            return
        self.make(entry.above)
        with (
            _below(other.directory, entry.above) as source,
            _below(self.directory, entry.above) as target,
        ):
            os.rename(entry.name, entry.name, src_dir_fd=source, dst_dir_fd=target)


def _ensure_within(infos: Sequence[ZipInfo], length: int, limits: UnpackLimits) -> None:
    if len(infos) > limits.entries:
        raise InvalidArchive(f"The zip has {len(infos):,} entries, past {limits.entries:,}")
    size = sum(info.file_size for info in infos)
    if size > limits.size:
        raise InvalidArchive(f"The zip unpacks to {size:,} bytes, past {limits.size:,}")
    if size > limits.free_size and size > length * limits.ratio:
        raise InvalidArchive(f"The zip of {length:,} bytes claims to hold {size:,}")


def _entry(info: ZipInfo, length: int) -> _Entry:
    name = info.filename
    if not name or not 0 <= info.header_offset < length:
        raise InvalidArchive(f"The zip is broken: {name!r} is not where it should be")
    if name.startswith(("/", "\\")) or ".." in re.split(r"[/\\]", name):
        raise InvalidArchive(f"{name!r} in the zip would leave the destination")
    if info.flag_bits & 0x1:
        raise InvalidArchive(f"{name!r} in the zip is encrypted")
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise InvalidArchive(f"{name!r} in the zip is compressed in a way not known here")
    entry = _Entry(info, tuple(part for part in name.split("/") if part not in ("", ".")))
    if len(entry.parts) > _MAX_DEPTH:
        raise InvalidArchive(f"{name[:100]!r}… in the zip is nested too deeply")
    if entry.kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
        raise InvalidArchive(f"{name!r} in the zip is neither file, directory nor link")
    return entry


def _ensure_tree(entries: Sequence[_Entry]) -> None:
    """Each name once, and nothing below what is not a directory."""
    leaves: set[tuple[str, ...]] = set()
    for entry in entries:
        if entry.kind != stat.S_IFDIR:
            if entry.parts in leaves:
                raise InvalidArchive(f"{entry.info.filename!r} is in the zip twice")
            leaves.add(entry.parts)
    for entry in entries:
        ends = len(entry.parts) + (entry.kind == stat.S_IFDIR)
        if any(entry.parts[:end] in leaves for end in range(1, ends)):
            raise InvalidArchive(f"{entry.info.filename!r} is below a file or link of the zip")


def _ensure_link_inside(entry: _Entry, target: str) -> None:
    """A link may climb only at its start, and no higher than the destination.

    Then whatever links it leads through, which all obey the same, it stays inside.
    """
    parts = [part for part in target.split("/") if part not in ("", ".")]
    climbs = next((n for n, part in enumerate(parts) if part != ".."), len(parts))
    outside = target.startswith("/") or climbs > len(entry.above) or ".." in parts[climbs:]
    if not target or outside or "\0" in target:
        raise InvalidArchive(
            f"The link {entry.info.filename!r} in the zip leads to {target!r}, out of it"
        )


def _ensure_no_clash(entries: Sequence[_Entry], destination: int) -> None:
    """What is there already must be of the same kind, or the move would stop half way."""
    for entry in entries:
        with _below(destination, entry.above) as directory:
            if directory is None:
                continue
            try:
                found = os.stat(entry.name, dir_fd=directory, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(found.st_mode) != (entry.kind == stat.S_IFDIR):
                raise InvalidArchive(
                    f"{entry.info.filename!r} in the zip is of another kind than what is there"
                )


@contextmanager
def _below(directory: int, parts: Sequence[str]) -> Iterator[int | None]:
    """The directory that `parts` lead to, None when it is not there; never through a link."""
    held = os.open(".", _BELOW, dir_fd=directory)
    try:
        yield held if _descend(held, parts) else None
    finally:
        os.close(held)


def _descend(held: int, parts: Sequence[str]) -> bool:
    """Make `held` the directory that `parts` lead to from it."""
    for part in parts:
        try:
            below = os.open(part, _BELOW, dir_fd=held)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            path = "/".join(parts)
            raise InvalidArchive(f"{path!r} in the zip leads through a file or link") from error
        os.dup2(below, held, inheritable=False)
        os.close(below)
    return True


@contextmanager
def _stage(destination: int) -> Iterator[int]:
    name = f".bascule-{secrets.token_hex(6)}.tmp"
    os.mkdir(name, 0o700, dir_fd=destination)
    try:
        stage = os.open(name, _BELOW, dir_fd=destination)
        try:
            yield stage
        finally:
            os.close(stage)
    finally:
        shutil.rmtree(name, dir_fd=destination)
