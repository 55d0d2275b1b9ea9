"""Streams a directory as a zip: no copy on disk, one block in memory.

- Files are stored, not compressed: the network path is short, so compression would cost more time.
- Empty directories are included.
- A link to a file inside the directory becomes a copy of that file. Every other link (to a
  directory, to the outside, broken) stays a link.
- Pipes, sockets, devices, and files that vanish meanwhile are left out.
- A file that we may not read aborts the zip. Every client notices an aborted zip, but no client
  would notice that a file is missing.
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

_BLOCK_BYTES = 1 << 20
_ZIP64_SIZE = 1 << 31
_FIRST_ZIP_TIME = 315_619_200
"""Unix time. A zip cannot store times before 1980, or after `_LAST_ZIP_TIME`, the end of 2107."""
_LAST_ZIP_TIME = 4_354_819_199
_DOS_DIRECTORY = 0x10
"""Attribute of directories in a zip, for programs that ignore Unix modes."""
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


def zip_directory(root: int) -> Iterator[bytes]:
    """Yield the zip of an open directory in pieces; names are relative to it."""
    sink = _Sink()
    # Without `tell` the zip is written as a stream: sizes follow each file's content.
    with ZipFile(sink, "w", ZIP_STORED) as archive:  # type: ignore[call-overload]
        for item in _items(root):
            yield from _add(archive, sink, item, root)
    yield sink.take()


def zip_file(descriptor: int, name: str) -> Iterator[bytes]:
    """Yield the zip of one open file in pieces."""
    sink = _Sink()
    with ZipFile(sink, "w", ZIP_STORED) as archive:  # type: ignore[call-overload]
        yield from _add_content(archive, sink, descriptor, name)
    yield sink.take()


def read_blocks(descriptor: int, size: int) -> Iterator[bytes]:
    """Yield at most `size` bytes, so that a file that grows meanwhile keeps its declared size."""
    while size > 0:
        block = os.read(descriptor, min(_BLOCK_BYTES, size))
        if not block:
            return
        size -= len(block)
        yield block


class _Sink:
    """Buffers the output of `ZipFile` until it is sent."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing; `ZipFile` requires the method."""

    def take(self) -> bytes:
        taken = b"".join(self._pieces)
        self._pieces.clear()
        return taken


@dataclass(frozen=True, slots=True)
class _Item:
    path: str
    directory: int
    name: str
    file_stat: os.stat_result


def _items(root: int) -> Iterator[_Item]:
    """Yield everything below `root`, each directory before its content."""
    open_directories = [(root, "", _names(root))]
    try:
        while open_directories:
            directory, prefix, names = open_directories[-1]
            name = next(names, None)
            if name is None:
                _close_last(open_directories)
                continue
            try:
                file_stat = os.stat(name, dir_fd=directory, follow_symlinks=False)
                below = None
                if stat.S_ISDIR(file_stat.st_mode):
                    below = os.open(name, _DIRECTORY_FLAGS, dir_fd=directory)
            except (FileNotFoundError, NotADirectoryError):
                continue
            yield _Item(prefix + name, directory, name, file_stat)
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
    kind = stat.S_IFMT(item.file_stat.st_mode)
    if kind == stat.S_IFDIR:
        archive.writestr(_info(f"{item.path}/", item.file_stat), b"")
    elif kind == stat.S_IFLNK:
        yield from _add_link(archive, sink, item, root)
    elif kind == stat.S_IFREG:
        with suppress(FileNotFoundError):
            descriptor = os.open(item.name, _FILE_FLAGS | os.O_NOFOLLOW, dir_fd=item.directory)
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
        archive.writestr(_info(item.path, item.file_stat), os.fsencode(target))


def _open_inside(item: _Item, root: int) -> int | None:
    """Open the target of a link; None if it is not a regular file below `root`."""
    try:
        pinned = os.open(item.name, os.O_PATH | os.O_CLOEXEC, dir_fd=item.directory)
    except OSError:
        return None
    try:
        # Check the type before opening: opening a device can have side effects.
        inside = real_path(pinned).startswith(f"{real_path(root).rstrip('/')}/")
        if not inside or not stat.S_ISREG(os.fstat(pinned).st_mode):
            return None
        return os.open(f"/proc/self/fd/{pinned}", _FILE_FLAGS)
    finally:
        os.close(pinned)


def _add_content(archive: ZipFile, sink: _Sink, descriptor: int, path: str) -> Iterator[bytes]:
    file_stat = os.fstat(descriptor)
    info = _info(path, file_stat)
    info.file_size = file_stat.st_size
    with archive.open(info, "w", force_zip64=file_stat.st_size >= _ZIP64_SIZE) as entry:
        for block in read_blocks(descriptor, file_stat.st_size):
            entry.write(block)
            yield sink.take()


def _info(path: str, file_stat: os.stat_result) -> ZipInfo:
    moment = time.localtime(min(max(file_stat.st_mtime, _FIRST_ZIP_TIME), _LAST_ZIP_TIME))
    info = ZipInfo(printable(path), moment[:6])
    info.external_attr = (file_stat.st_mode & 0xFFFF) << 16
    if stat.S_ISDIR(file_stat.st_mode):
        info.external_attr |= _DOS_DIRECTORY
    return info
