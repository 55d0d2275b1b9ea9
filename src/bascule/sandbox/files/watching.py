"""Reports changes in a directory, with the kernel's inotify."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import struct
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Literal

from bascule.core.errors import InvalidRange, StorageFailed

from .paths import Paths, printable, real_path

ChangeType = Literal["create", "write", "remove", "rename", "chmod"]

MAX_WATCHED: Final = 4096
"""Maximum number of directories of one recursive watch."""
_MAX_CHANGES: Final = 10_000
"""Changes kept for a slow reader; a full buffer ends the watch with an error."""
_READ_BYTES: Final = 64 << 10
_EVENT: Final = struct.Struct("iIII")

_MODIFY, _ATTRIB, _MOVED_FROM, _MOVED_TO = 0x2, 0x4, 0x40, 0x80
_CREATE, _DELETE = 0x100, 0x200
_OVERFLOW, _IGNORED, _IS_DIRECTORY = 0x4000, 0x8000, 0x40000000
_ONLY_DIRECTORY: Final = 0x01000000
_EVENTS: Final = _MODIFY | _ATTRIB | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_TYPES: Final[tuple[tuple[int, ChangeType], ...]] = (
    (_CREATE | _MOVED_TO, "create"),
    (_MODIFY, "write"),
    (_DELETE, "remove"),
    (_MOVED_FROM, "rename"),
    (_ATTRIB, "chmod"),
)


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change of a file."""

    path: str
    """Relative to the watched directory."""
    type: ChangeType


class DirectoryWatch:
    """Watches a directory from `open` until `close`."""

    def __init__(self, paths: Paths, *, is_recursive: bool) -> None:
        self._paths = paths
        self._is_recursive = is_recursive
        self._fd = -1
        self._directories: dict[int, str] = {}
        """Path relative to the watched directory, by the kernel's number of the watch."""
        self._root = ""
        self._changes: deque[FileChange] = deque()
        self._arrived = asyncio.Event()
        self._error: StorageFailed | None = None
        self._is_finished = False

    def open(self, path: str) -> None:
        """Start to watch. Blocks. Raises an error if `path` is no directory."""
        self._fd = _inotify("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            with self._paths.directory(path, "/") as directory:
                self._root = real_path(directory)
                self._add(self._root, "")
        except BaseException:
            os.close(self._fd)
            self._fd = -1
            raise

    def listen(self) -> None:
        """Collect changes from now on, on the running event loop."""
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    def finish(self) -> None:
        """End `changes` once the collected changes are read."""
        self._is_finished = True
        self._arrived.set()

    def close(self) -> None:
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    async def changes(self, heartbeat: float) -> AsyncIterator[FileChange | None]:
        """Changes as they happen; None after `heartbeat` seconds without one."""
        while True:
            while self._changes:
                yield self._changes.popleft()
            if self._error is not None:
                raise self._error
            if self._is_finished:
                return
            self._arrived.clear()
            try:
                async with asyncio.timeout(heartbeat):
                    await self._arrived.wait()
            except TimeoutError:
                yield None

    def _read(self) -> None:
        try:
            data = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return
        at = 0
        while at < len(data):
            watch, mask, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size
            name = os.fsdecode(data[at : at + length].rstrip(b"\0"))
            at += length
            self._on_event(watch, mask, name)
        self._arrived.set()

    def _on_event(self, watch: int, mask: int, name: str) -> None:
        if mask & _IGNORED:
            self._directories.pop(watch, None)
            return
        if mask & _OVERFLOW or len(self._changes) >= _MAX_CHANGES:
            self._error = StorageFailed(
                "More files changed than the watcher could report; start to watch again"
            )
            return
        if not name or watch not in self._directories:
            return
        path = str(PurePosixPath(self._directories[watch], name))
        for bits, kind in _TYPES:
            if mask & bits:
                self._changes.append(FileChange(printable(path), kind))
        if self._is_recursive and mask & _IS_DIRECTORY and mask & (_CREATE | _MOVED_TO):
            self._follow(path)

    def _follow(self, path: str) -> None:
        """Watch a new directory, and report what was created in it before it was watched."""
        try:
            found = self._add(os.path.join(self._root, path), path)  # noqa: PTH118
        except (OSError, InvalidRange) as error:
            if not isinstance(error, OSError) or error.errno == errno.ENOSPC:
                self._error = StorageFailed(str(error))
            return
        self._changes.extend(FileChange(printable(each), "create") for each in found)

    def _add(self, real: str, path: str) -> list[str]:
        """Watch a directory, and those in it if recursive. Returns the paths of its entries."""
        if len(self._directories) >= MAX_WATCHED:
            raise InvalidRange(
                f"A watch is limited to {MAX_WATCHED:,} directories; watch a smaller directory"
            )
        number = _inotify(
            "inotify_add_watch", self._fd, os.fsencode(real), _EVENTS | _ONLY_DIRECTORY
        )
        self._directories[number] = path
        if not self._is_recursive:
            return []
        entries: list[str] = []
        with os.scandir(real) as scan:
            found = list(scan)
        for each in found:
            inside = str(PurePosixPath(path, each.name))
            entries.append(inside)
            if each.is_dir(follow_symlinks=False):
                try:
                    entries += self._add(each.path, inside)
                except (FileNotFoundError, NotADirectoryError, PermissionError):
                    continue
        return entries


def _inotify(name: str, *arguments: object) -> int:
    call: Callable[..., int] = getattr(ctypes.CDLL(None, use_errno=True), name)
    result = call(*arguments)
    if result >= 0:
        return result
    code = ctypes.get_errno()
    raise OSError(code, os.strerror(code))
