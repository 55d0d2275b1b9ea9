"""The names in a directory whenever they change, by inotify."""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

_CREATED: Final = 0x00000100
_DELETED: Final = 0x00000200
_MOVED: Final = 0x000000C0
_EVENT_BYTES: Final = 64 << 10


async def sockets_in(directory: Path) -> AsyncGenerator[list[str], None]:
    """The names of the sockets in the directory: now, and after each change."""
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "inotify is not available")
    loop = asyncio.get_running_loop()
    changed = asyncio.Event()
    try:
        mask = _CREATED | _DELETED | _MOVED
        if library.inotify_add_watch(descriptor, os.fsencode(directory), mask) < 0:
            raise OSError(ctypes.get_errno(), f"{directory} cannot be watched")
        loop.add_reader(descriptor, changed.set)
        last: list[str] | None = None
        while True:
            names = await asyncio.to_thread(_sockets, directory)
            if names != last:
                last = names
                yield names
            await changed.wait()
            changed.clear()
            _drain(descriptor)
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _sockets(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir() if each.is_socket())


def _drain(descriptor: int) -> None:
    """Read and ignore all events: the directory is listed again anyway."""
    try:
        while os.read(descriptor, _EVENT_BYTES):
            pass
    except BlockingIOError:
        return
