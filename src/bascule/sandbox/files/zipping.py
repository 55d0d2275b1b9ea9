"""Streams a directory as a zip: no copy on disk, one block in memory.

Files are stored, not compressed: the way is short, and the time better spent elsewhere. Empty
directories are kept. A link to a file inside is stored as that file's content; every other link
(to a directory, to the outside, to nothing) as a link. Pipes, sockets and devices are left out,
and so is what vanishes meanwhile; what may not be read breaks the zip off, which every client
notices, where a file that is silently missing would go unnoticed.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from .paths import printable, real_path

_BLOCK = 1 << 20
_LARGE = 1 << 31
_BELOW = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


def zip_directory(root: int) -> Iterator[bytes]:
    """The zip of an open directory, piece by piece; names are relative to it."""
    sink = _Sink()
    # Without `tell` the zip is written as a stream: sizes follow each file's content.
    with ZipFile(sink, "w", ZIP_STORED) as archive:  # type: ignore[call-overload]
        for item in _items(root):
            yield from _add(archive, sink, item, root)
    yield sink.take()


def zip_file(descriptor: int, name: str) -> Iterator[bytes]:
    """The zip of one open file."""
    sink = _Sink()
    with ZipFile(sink, "w", ZIP_STORED) as archive:  # type: ignore[call-overload]
        yield from _add_content(archive, sink, descriptor, name)
    yield sink.take()


def read_blocks(descriptor: int, size: int) -> Iterator[bytes]:
    """As many bytes as the file had when it was looked at, though it may grow meanwhile."""
    while size > 0:
        block = os.read(descriptor, min(_BLOCK, size))
        if not block:
            return
        size -= len(block)
        yield block


class _Sink:
    """Takes what the archive writes until it is sent on."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """There is nothing behind it."""

    def take(self) -> bytes:
        taken = b"".join(self._pieces)
        self._pieces.clear()
        return taken


@dataclass(frozen=True, slots=True)
class _Item:
    path: str
    directory: int
    name: str
    found: os.stat_result


def _items(root: int) -> Iterator[_Item]:
    """Everything below, each directory before what is in it."""
    open_directories = [(root, "", _names(root))]
    try:
        while open_directories:
            directory, prefix, names = open_directories[-1]
            name = next(names, None)
            if name is None:
                _close_last(open_directories)
                continue
            try:
                found = os.stat(name, dir_fd=directory, follow_symlinks=False)
                below = None
                if stat.S_ISDIR(found.st_mode):
                    below = os.open(name, _BELOW, dir_fd=directory)
            except (FileNotFoundError, NotADirectoryError):
                continue
            yield _Item(prefix + name, directory, name, found)
            if below is not None:
                open_directories.append((below, f"{prefix}{name}/", _names(below)))
    finally:
        while open_directories:
            _close_last(open_directories)


def _names(directory: int) -> Iterator[str]:
    return iter(sorted(os.listdir(directory)))


def _close_last(open_directories: list[tuple[int, str, Iterator[str]]]) -> None:
    directory, _, _ = open_directories.pop()
    if open_directories:
        os.close(directory)


def _add(archive: ZipFile, sink: _Sink, item: _Item, root: int) -> Iterator[bytes]:
    kind = stat.S_IFMT(item.found.st_mode)
    if kind == stat.S_IFDIR:
        archive.writestr(_info(f"{item.path}/", item.found), b"")
    elif kind == stat.S_IFLNK:
        yield from _add_link(archive, sink, item, root)
    elif kind == stat.S_IFREG:
        with suppress(FileNotFoundError):
            descriptor = os.open(item.name, _FILE | os.O_NOFOLLOW, dir_fd=item.directory)
            try:
                yield from _add_content(archive, sink, descriptor, item.path)
            finally:
                os.close(descriptor)


def _add_link(archive: ZipFile, sink: _Sink, item: _Item, root: int) -> Iterator[bytes]:
    descriptor = _open_inside(item, root)
    if descriptor is not None:
        try:
            yield from _add_content(archive, sink, descriptor, item.path)
        finally:
            os.close(descriptor)
        return
    with suppress(OSError):
        target = os.readlink(item.name, dir_fd=item.directory)
        archive.writestr(_info(item.path, item.found), os.fsencode(target))


def _open_inside(item: _Item, root: int) -> int | None:
    """What a link leads to, when that is a file below `root`."""
    try:
        pinned = os.open(item.name, os.O_PATH | os.O_CLOEXEC, dir_fd=item.directory)
    except OSError:
        return None
    try:
        # Looked at before it is opened: opening some devices does something.
        inside = real_path(pinned).startswith(f"{real_path(root).rstrip('/')}/")
        if not inside or not stat.S_ISREG(os.fstat(pinned).st_mode):
            return None
        return os.open(f"/proc/self/fd/{pinned}", _FILE)
    finally:
        os.close(pinned)


def _add_content(archive: ZipFile, sink: _Sink, descriptor: int, path: str) -> Iterator[bytes]:
    found = os.fstat(descriptor)
    info = _info(path, found)
    info.file_size = found.st_size
    with archive.open(info, "w", force_zip64=found.st_size >= _LARGE) as entry:
        for block in read_blocks(descriptor, found.st_size):
            entry.write(block)
            yield sink.take()


def _info(path: str, found: os.stat_result) -> ZipInfo:
    # A zip knows no time before 1980, and none after 2107.
    moment = time.localtime(min(max(found.st_mtime, 315_619_200), 4_354_819_199))
    info = ZipInfo(printable(path), moment[:6])
    info.external_attr = (found.st_mode & 0xFFFF) << 16
    if stat.S_ISDIR(found.st_mode):
        info.external_attr |= 0x10
    return info
