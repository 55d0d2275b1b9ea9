"""Copies files into the store, and reports why it leaves other files out."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bascule.core.errors import StorageFailed
from bascule.core.ignore_rules import IgnoreLevel, IgnoreRules, is_ignored, parse_rules

from .blobs import BlobBatch, read_pieces
from .limits import CheckpointLimits, human_size
from .versions import Content, FileStat, parents_of
from .walk import open_below

# O_NONBLOCK is necessary: the file may have been replaced by a FIFO, and opening a FIFO must not
# block.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TICK_NS = 20_000_000
"""A time in nanoseconds that is longer than the resolution of file timestamps."""
_MAX_TRIES = 3
_MAX_GITIGNORE_BYTES = 1 << 20
"""Bytes of a `.gitignore` file that are read."""
_SMALL_FILE_BYTES = 1 << 20
"""Bytes below which a file is not checked for holes."""


class _Unstable(Exception):
    """The file changed while it was read."""


@dataclass(slots=True)
class Capture:
    """The result of copying the files of one walk."""

    contents: dict[str, Content] = field(default_factory=dict)
    stats: dict[str, FileStat] = field(default_factory=dict)
    """Newer stat data of files that changed between the walk and the copy."""
    gone: set[str] = field(default_factory=set)
    not_kept: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Size and reason by path."""
    ignored: set[str] = field(default_factory=set)
    racy: set[str] = field(default_factory=set)
    """Files that may change again without a new timestamp. The next walk compares contents."""


class _Hashes:
    """Has the method `add` of a `BlobBatch`, but stores nothing: it only computes digests."""

    def add(self, pieces: Iterable[bytes]) -> Content:
        digest = hashlib.sha256()
        for piece in pieces:
            digest.update(piece)
        return digest.digest()


class Capturer:
    """Copies files of one workspace into a batch, within limits."""

    def __init__(
        self, root: int, store: Path, limits: CheckpointLimits, *, make_room: Callable[[int], bool]
    ) -> None:
        """`make_room` frees a number of bytes in the store, and returns whether it succeeded."""
        self._root, self._store, self._limits = root, store, limits
        self._make_room = make_room
        self._rules: dict[str, IgnoreRules | None] = {}

    def capture(
        self,
        files: Mapping[str, FileStat],
        batch: BlobBatch,
        *,
        known: Mapping[str, Content],
        kept_bytes: int,
        kept_ignored_bytes: int,
    ) -> Capture:
        """Copy `files`, the smallest first. `known`: contents in the store that the files
        probably still have, by path. `kept_bytes`: the sum of the bytes of other files that are in
        the store already. `kept_ignored_bytes`: the part of this sum for files that git ignores."""
        done = Capture()
        limits = self._limits
        for path, found in sorted(files.items(), key=lambda item: (item[1].size, item[0])):
            ignored = self.is_ignored(path)
            size = found.size
            max_bytes = limits.ignored_file_bytes if ignored else limits.file_bytes
            if size > max_bytes:
                reason = f"larger than {human_size(max_bytes)}"
                done.not_kept[path] = (size, f"ignored by git and {reason}" if ignored else reason)
            elif ignored and kept_ignored_bytes + size > limits.ignored_total_bytes:
                total = human_size(limits.ignored_total_bytes)
                done.not_kept[path] = (size, f"more than {total} of files ignored by git")
            elif kept_bytes + size > limits.workspace_bytes:
                total = human_size(limits.workspace_bytes)
                done.not_kept[path] = (size, f"more than {total} of files in the workspace")
            elif not (is_known := self._has_content(path, known.get(path), done)) and (
                reason := self._no_room(path, found)
            ):
                done.not_kept[path] = (size, reason)
            elif is_known or self._copy(path, batch, done):
                kept_bytes += size
                if ignored:
                    kept_ignored_bytes += size
                    done.ignored.add(path)
        return done

    def is_ignored(self, path: str) -> bool:
        """Whether a `.gitignore` excludes the file or a directory above it."""
        parents = parents_of(path)
        for each, is_directory in [*((parent, True) for parent in parents), (path, False)]:
            if is_ignored(self._levels(each), each, is_directory=is_directory):
                return True
        return False

    def _levels(self, path: str) -> Iterable[IgnoreLevel]:
        """The `.gitignore` rules that apply to a path, those of the nearest directory first."""
        for directory in [*reversed(parents_of(path)), ""]:
            if directory not in self._rules:
                self._rules[directory] = self._read_rules(directory)
            if rules := self._rules[directory]:
                yield IgnoreLevel(rules, cut=len(directory) + 1 if directory else 0)

    def _read_rules(self, directory: str) -> IgnoreRules | None:
        try:
            parent_fd = open_below(self._root, directory)
        except OSError:
            return None
        try:
            descriptor = os.open(".gitignore", _FILE_FLAGS, dir_fd=parent_fd)
        except OSError:
            return None
        finally:
            os.close(parent_fd)
        try:
            return parse_rules(
                os.read(descriptor, _MAX_GITIGNORE_BYTES).decode("utf-8", "surrogateescape")
            )
        except OSError:
            return None
        finally:
            os.close(descriptor)

    def _no_room(self, path: str, found: FileStat) -> str:
        """Why there is no space for one more file; empty if there is enough space."""
        needed = min(found.size, self._allocated(path, found))
        if shutil.disk_usage(self._store).free - needed < self._limits.free_disk_bytes:
            return f"less than {human_size(self._limits.free_disk_bytes)} free on the disk"
        if not self._make_room(needed):
            return f"no room in the store of {human_size(self._limits.store_bytes)}"
        return ""

    def _allocated(self, path: str, found: FileStat) -> int:
        """The file's size on disk. Holes of a sparse file use no space in the store either."""
        if found.size < _SMALL_FILE_BYTES:
            return found.size
        directory, _, name = path.rpartition("/")
        try:
            parent_fd = open_below(self._root, directory)
        except OSError:
            return found.size
        try:
            return os.stat(name, dir_fd=parent_fd, follow_symlinks=False).st_blocks * 512
        except OSError:
            return found.size
        finally:
            os.close(parent_fd)

    def _has_content(self, path: str, content: Content | None, done: Capture) -> bool:
        """Whether the file still has `content`. The store has `content` already, so such a file
        needs no more space."""
        found = Capture()
        if content is None or not self._copy(path, _Hashes(), found):
            return False
        if found.contents.get(path) != content:
            return False
        done.contents |= found.contents
        done.stats |= found.stats
        done.racy |= found.racy
        return True

    def _copy(self, path: str, batch: BlobBatch | _Hashes, done: Capture) -> bool:
        directory, _, name = path.rpartition("/")
        try:
            parent_fd = open_below(self._root, directory)
        except OSError:
            done.gone.add(path)
            return False
        try:
            for _ in range(_MAX_TRIES):
                try:
                    self._copy_from(parent_fd, name, path, batch, done)
                except _Unstable:
                    continue
                return True
            done.not_kept[path] = (0, "changed while it was read")
        except FileNotFoundError:
            done.gone.add(path)
        except StorageFailed:
            raise
        except OSError as error:
            done.not_kept[path] = (0, (error.strerror or str(error)).lower())
        finally:
            os.close(parent_fd)
        return False

    def _copy_from(
        self, parent_fd: int, name: str, path: str, batch: BlobBatch | _Hashes, done: Capture
    ) -> None:
        began = time.time_ns()
        first = FileStat.of(os.stat(name, dir_fd=parent_fd, follow_symlinks=False))
        if first.is_link:
            content = batch.add([os.fsencode(os.readlink(name, dir_fd=parent_fd))])
        elif first.is_file:
            descriptor = os.open(name, _FILE_FLAGS, dir_fd=parent_fd)
            try:
                if FileStat.of(os.fstat(descriptor)) != first:
                    raise _Unstable
                content = batch.add(read_pieces(descriptor))
            finally:
                os.close(descriptor)
        else:
            done.stats[path] = first
            return
        if FileStat.of(os.stat(name, dir_fd=parent_fd, follow_symlinks=False)) != first:
            raise _Unstable
        done.contents[path] = content
        done.stats[path] = first
        if first.ctime_ns > began - _TICK_NS:
            done.racy.add(path)
