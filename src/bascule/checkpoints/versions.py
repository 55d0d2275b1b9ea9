"""One path at one moment: its stat data and a reference to its content.

A content is a digest: 32 bytes (SHA-256) name a blob of the store, 20 bytes (SHA-1) name an object
of the user's git to which the store has a hard link. An empty digest means: not kept.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Container, Iterator, Mapping
from typing import NamedTuple

Content = bytes
NOT_KEPT: Content = b""
_GIT_DIGEST_BYTES = 20


class FileStat(NamedTuple):
    """The fields of `lstat` that show whether a file changed, or that a restore sets."""

    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    uid: int
    gid: int

    @classmethod
    def of(cls, found: os.stat_result) -> FileStat:
        return cls(
            found.st_mode,
            found.st_size,
            found.st_mtime_ns,
            found.st_ctime_ns,
            found.st_ino,
            found.st_uid,
            found.st_gid,
        )

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)

    @property
    def is_fifo(self) -> bool:
        return stat.S_ISFIFO(self.mode)

    @property
    def has_content(self) -> bool:
        """True for regular files and symbolic links. The content of a link is its target."""
        return self.is_file or self.is_link


Listing = Mapping[str, FileStat]
"""The entries of one directory, by name."""
Tree = Mapping[str, Listing]
"""Every directory of a workspace by its path; the workspace itself is `""`."""


class Version(NamedTuple):
    """One path at one moment."""

    stat: FileStat
    content: Content

    @property
    def is_restorable(self) -> bool:
        """Whether the store can restore this version. It cannot restore sockets, devices and
        contents that were not kept."""
        if self.stat.has_content:
            return self.content != NOT_KEPT
        return self.stat.is_directory or self.stat.is_fifo


def is_git_object(content: Content) -> bool:
    return len(content) == _GIT_DIGEST_BYTES


def join(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


def shown_path(path: str) -> str:
    """`path` as text that can be encoded: bytes that are not UTF-8 become `\\xff`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def parents_of(path: str) -> list[str]:
    """The directories above a path, the topmost first: `a` and `a/b` for `a/b/c`."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def same_version(one: Version | None, other: Version | None) -> bool:
    """Whether two versions of a path are equal for a restore.

    Times and inode do not matter if both contents are known and equal: `touch`, `cp -p` and a new
    hard link destroy nothing. If a content was not kept, all stat data must be equal.
    """
    if one is None or other is None:
        return one is other
    if one.stat == other.stat:
        return True
    return _same_kind_and_rights(one.stat, other.stat) and _same_content(one, other)


def is_worth_recording(before: Version | None, after: Version | None) -> bool:
    """Whether restoring `before` would change anything."""
    if before is None or after is None:
        return before is not after
    return not (same_version(before, after) and before.stat.mtime_ns == after.stat.mtime_ns)


def _same_kind_and_rights(one: FileStat, other: FileStat) -> bool:
    return (one.mode, one.uid, one.gid) == (other.mode, other.uid, other.gid)


def _same_content(one: Version, other: Version) -> bool:
    if one.stat.has_content:
        return one.content == other.content != NOT_KEPT
    # Sockets and devices are identified by their inode.
    return one.stat.is_directory or one.stat.is_fifo or one.stat.inode == other.stat.inode


# On disk ----------------------------------------------------------------------------------

_STAT = struct.Struct("<IqqqQII")
_ENTRY = struct.Struct("<IqqqQIIB32s")
_IGNORED = 0x80


def encode_stat(value: FileStat) -> bytes:
    return _STAT.pack(*value)


def decode_stat(data: bytes) -> FileStat:
    return FileStat(*_STAT.unpack(data))


def encode_listing(
    directory: str, listing: Listing, contents: Mapping[str, Content], ignored: Container[str]
) -> tuple[bytes, bytes]:
    """The encoded names, and the encoded entries of fixed size. The keys of `contents` and the
    items of `ignored` are paths."""
    pack = _ENTRY.pack
    prefix = f"{directory}/" if directory else ""
    entries = []
    for name, found in listing.items():
        path = prefix + name
        content = contents.get(path, NOT_KEPT)
        length = len(content) | (_IGNORED if path in ignored else 0)
        entries.append(pack(*found, length, content))
    return os.fsencode("\0".join(listing)), b"".join(entries)


def decode_listing(names: bytes, entries: bytes) -> Iterator[tuple[str, FileStat, Content, bool]]:
    """Name, stat data and content of each entry, and whether `.gitignore` excludes the entry."""
    unpacked = _ENTRY.iter_unpack(entries)
    for name, entry in zip(os.fsdecode(names).split("\0"), unpacked, strict=False):
        *found, length, content = entry
        yield name, FileStat._make(found), content[: length & ~_IGNORED], length & _IGNORED != 0
