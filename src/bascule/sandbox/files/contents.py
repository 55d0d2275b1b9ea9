"""Reads the entries of a zip or tar and checks all of them before any is unpacked."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, Any, Final, cast
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from bascule.core.errors import InvalidArchive

from .staging import NEW_FILE_MODE
from .unpacking import Archive, ArchiveEntry, safe_parts

_MAX_LINK_BYTES: Final = 4096
_MAX_READ_BYTES: Final = 1 << 20
_DETECTION_BYTES: Final = 512
"""Bytes at the start of an archive that show its format."""
_OPENERS: Final[Mapping[bytes, Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\0": lzma.open,
}
"""Function that opens a compressed tar, by the first bytes of the file."""
_BROKEN_ARCHIVE_ERRORS: Final = (
    *(BadZipFile, zlib.error, lzma.LZMAError, gzip.BadGzipFile, tarfile.TarError),
    *(EOFError, NotImplementedError, UnicodeDecodeError),
)


@dataclass(frozen=True, slots=True)
class UnpackLimits:
    entries: int = 200_000
    size: int = 8 << 30
    """Total unpacked bytes of all files."""
    ratio: int = 200
    """Unpacked bytes per byte of archive. Checked only above `free_size` (against zip bombs)."""
    free_size: int = 64 << 20


@contextmanager
def open_archive(stream: IO[bytes], limits: UnpackLimits) -> Iterator[Archive]:
    """Open an archive and check all its entries. Raises `InvalidArchive`, here or on unpacking."""
    length = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    begin = stream.read(_DETECTION_BYTES)
    stream.seek(0)
    try:
        with ExitStack() as held:
            if _is_tar(begin):
                yield Archive(_tar_entries(_tar(stream, begin, held), length, limits))
            else:
                file = held.enter_context(_zip_file(stream))
                yield Archive(_zip_entries(file, length, limits))
    except _BROKEN_ARCHIVE_ERRORS as error:
        raise InvalidArchive(f"The archive is broken: {error}") from error


class _LimitCounter:
    """Counts entries and bytes of an archive and raises when a limit is exceeded."""

    def __init__(self, length: int, limits: UnpackLimits) -> None:
        self._length = length
        self._limits = limits
        self._entries = self._size = 0

    def add(self, size: int) -> None:
        limits = self._limits
        self._entries += 1
        self._size += size
        if self._entries > limits.entries:
            raise InvalidArchive(f"The archive has more than {limits.entries:,} entries")
        if self._size > limits.size:
            raise InvalidArchive(f"The archive unpacks to more than {limits.size:,} bytes")
        if self._size > limits.free_size and self._size > self._length * limits.ratio:
            raise InvalidArchive(f"The archive of {self._length:,} bytes claims to hold far more")


# Zip ------------------------------------------------------------------------------------


def _zip_file(stream: IO[bytes]) -> ZipFile:
    try:
        return ZipFile(stream)
    except (ValueError, OSError) as error:  # invalid offsets, undecodable names
        raise BadZipFile(str(error)) from error


def _zip_entries(file: ZipFile, length: int, limits: UnpackLimits) -> list[ArchiveEntry]:
    counter = _LimitCounter(length, limits)
    for info in file.infolist():
        counter.add(info.file_size)
    return [_zip_entry(file, info, length) for info in file.infolist()]


def _zip_entry(file: ZipFile, info: ZipInfo, length: int) -> ArchiveEntry:
    name = info.filename
    if not 0 <= info.header_offset < length:
        raise InvalidArchive(f"The archive is broken: {name!r} is not where it should be")
    parts = safe_parts(name)
    if info.flag_bits & 0x1:
        raise InvalidArchive(f"{name!r} in the archive is encrypted")
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise InvalidArchive(f"{name!r} in the archive is compressed in a way not known here")
    # Archives from other systems than Unix store no file type; their entries are regular files.
    kind = stat.S_IFMT(info.external_attr >> 16) or stat.S_IFREG
    kind = stat.S_IFDIR if info.is_dir() else kind
    if kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
        raise InvalidArchive(f"{name!r} in the archive is neither file, directory nor link")
    return ArchiveEntry(
        name=name,
        parts=parts,
        kind=kind,
        mode=(info.external_attr >> 16) & 0o777 or NEW_FILE_MODE,
        size=info.file_size,
        open=lambda: file.open(info),
        target=_zip_link(file, info) if kind == stat.S_IFLNK else "",
    )


def _zip_link(file: ZipFile, info: ZipInfo) -> str:
    if info.file_size > _MAX_LINK_BYTES:
        raise InvalidArchive(f"The link {info.filename!r} in the archive is too long")
    return os.fsdecode(file.read(info))


# Tar ------------------------------------------------------------------------------------


def _is_tar(begin: bytes) -> bool:
    return begin[257:262] == b"ustar" or begin.startswith(tuple(_OPENERS))


def _tar(stream: IO[bytes], begin: bytes, held: ExitStack) -> tarfile.TarFile:
    for mark, opener in _OPENERS.items():
        if begin.startswith(mark):
            stream = held.enter_context(opener(stream))
    bounded = cast("IO[bytes]", _Bounded(stream))
    return held.enter_context(tarfile.open(fileobj=bounded, mode="r:", errorlevel=2))


class _Bounded(io.RawIOBase):
    """A stream that refuses reads larger than any sensible header.

    A tar can declare a name of any length, and `tarfile` would read all of it into memory.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MAX_READ_BYTES:
            raise InvalidArchive("The archive has a header that is too long")
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()


def _tar_entries(tar: tarfile.TarFile, length: int, limits: UnpackLimits) -> list[ArchiveEntry]:
    counter = _LimitCounter(length, limits)
    entries = []
    files: set[tuple[str, ...]] = set()
    for member in _members(tar):
        counter.add(member.size)
        entry = _tar_entry(tar, member)
        if entry.same_as and entry.same_as not in files:
            raise InvalidArchive(
                f"{entry.name!r} is a hard link to an entry that is not in the archive"
            )
        if entry.kind == stat.S_IFREG:
            files.add(entry.parts)
        entries.append(entry)
    return entries


def _members(tar: tarfile.TarFile) -> Iterable[tarfile.TarInfo]:
    while (member := tar.next()) is not None:
        yield member


def _tar_entry(tar: tarfile.TarFile, member: tarfile.TarInfo) -> ArchiveEntry:
    kinds = {
        member.isreg(): stat.S_IFREG,
        member.islnk(): stat.S_IFREG,
        member.isdir(): stat.S_IFDIR,
        member.issym(): stat.S_IFLNK,
    }
    if True not in kinds:
        raise InvalidArchive(f"{member.name!r} in the archive is neither file, directory nor link")
    return ArchiveEntry(
        name=member.name,
        parts=safe_parts(member.name),
        kind=kinds[True],
        mode=member.mode & 0o777 or NEW_FILE_MODE,
        size=member.size,
        open=lambda: cast("IO[bytes]", tar.extractfile(member)),
        target=member.linkname if member.issym() else "",
        same_as=safe_parts(member.linkname) if member.islnk() else (),
    )
