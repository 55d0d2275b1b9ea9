"""Reads git's index: which tracked files are unchanged since git last checked them.

Supports versions 2 to 4 of the format in git's `gitformat-index`, with SHA-1 names. A split index,
or an index with SHA-256 names, reads as empty, so its files are copied like untracked files.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from .versions import FileStat

_HEADER = struct.Struct(">4sII")
_ENTRY = struct.Struct(">10I20sH")
_EXTENSION = struct.Struct(">4sI")
_DIGEST_BYTES = 20
_EXTENDED = 0x4000
_STAGE = 0x3000
_NAME_LENGTH = 0xFFF
_32_BITS = 0xFFFFFFFF
_SECOND_NS = 1_000_000_000
_PREFIX_COMPRESSED = 4
_MAX_NAME_BYTES = 4096
"""Maximum bytes of a name, as PATH_MAX. In version 4 a name extends the name before it, so without
a limit a small index could expand to gigabytes."""
_MAX_NAME_RATIO = 8
"""Maximum bytes of all names together, for each byte of the index."""


class IndexEntry(NamedTuple):
    """A tracked file as git last saw it. All numbers except times are cut to 32 bits."""

    object_name: bytes
    mtime_ns: int
    ctime_ns: int
    inode: int
    uid: int
    gid: int
    size: int

    def describes(self, found: FileStat, *, index_mtime_ns: int) -> bool:
        """Whether the file is unchanged since git saw it, so that its content is the object
        `object_name`.

        A file with the same timestamp as the index may have changed after git read it.
        """
        return (
            self.mtime_ns == found.mtime_ns < index_mtime_ns
            and self.ctime_ns == found.ctime_ns
            and self.size == found.size & _32_BITS
            and self.inode == found.inode & _32_BITS
            and self.uid == found.uid & _32_BITS
            and self.gid == found.gid & _32_BITS
        )


def parse_index(data: bytes) -> dict[str, IndexEntry]:
    """Entries by path relative to the work tree. Empty for an index that cannot be read."""
    try:
        signature, version, count = _HEADER.unpack_from(data)
        if signature != b"DIRC" or version not in (2, 3, 4):
            return {}
        entries, end = _entries(data, version, count)
        return {} if _is_split(data, end) else entries
    except (struct.error, ValueError, IndexError):  # a truncated file, or 32-byte object names
        return {}


def _entries(data: bytes, version: int, count: int) -> tuple[dict[str, IndexEntry], int]:
    entries: dict[str, IndexEntry] = {}
    at, name, total = _HEADER.size, b"", 0
    unpack, size = _ENTRY.unpack_from, _ENTRY.size
    new = tuple.__new__  # faster than a constructor, for tens of thousands of entries
    for _ in range(count):
        fields = unpack(data, at)
        flags = fields[11]
        start = at + size + (2 if flags & _EXTENDED else 0)
        if version == _PREFIX_COMPRESSED:
            cut, start = _varint(data, start)
            end = data.index(b"\0", start)
            name = name[: len(name) - cut] + data[start:end]
            following = end + 1
        else:
            named = flags & _NAME_LENGTH
            end = start + named if named < _NAME_LENGTH else data.index(b"\0", start)
            name = data[start:end]
            following = end + 8 - (end - at) % 8
        total += len(name)
        if len(name) > _MAX_NAME_BYTES or total > _MAX_NAME_RATIO * len(data):
            raise ValueError("the names are too long")
        if not flags & _STAGE:  # entries with a stage belong to a merge conflict
            path = name.decode("utf-8", "surrogateescape")
            ctime_s, ctime_ns, mtime_s, mtime_ns, _, inode, _, uid, gid, length, digest, _ = fields
            entries[path] = new(
                IndexEntry,
                (
                    digest,
                    mtime_s * _SECOND_NS + mtime_ns,
                    ctime_s * _SECOND_NS + ctime_ns,
                    inode,
                    uid,
                    gid,
                    length,
                ),
            )
        at = following
    return entries, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode git's offset encoding: seven bits per byte, with 1 added for each further byte.
    Returns the value and the next position."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = (value + 1) << 7 | data[at] & 0x7F
    return value, at + 1


def _is_split(data: bytes, at: int) -> bool:
    return any(name == b"link" for name in _extensions(data, at))


def _extensions(data: bytes, at: int) -> Iterator[bytes]:
    while at + _EXTENSION.size <= len(data) - _DIGEST_BYTES:
        name, length = _EXTENSION.unpack_from(data, at)
        yield name
        at += _EXTENSION.size + length
