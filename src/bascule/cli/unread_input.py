"""Prints a hint if input is piped to a command that does not read it."""

from __future__ import annotations

import array
import asyncio
import fcntl
import os
import stat
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_HINT_DELAY: Final = 1.0
"""Seconds before the hint. In a shell loop that reads the same stdin (`while read …`), most
commands end earlier, so there is no false hint."""


@contextmanager
def hint_about_unread_input() -> Iterator[None]:
    """Print a hint once if stdin has data that the command does not read.

    Reads nothing from stdin. There is no hint for a terminal, /dev/null or a pipe without data.
    """
    if sys.stdin is None or sys.stdin.isatty():
        yield
        return
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()

    def check() -> None:
        if _has_data(descriptor):
            print(  # noqa: T201
                "bascule: stdin is not passed on to the command (use a file, or a "
                "heredoc inside the command)",
                file=sys.stderr,
            )
        loop.remove_reader(descriptor)

    def watch() -> None:
        try:
            loop.add_reader(descriptor, check)
        except (
            PermissionError
        ):  # epoll does not support regular files; their data is available at once
            check()

    timer = loop.call_later(_HINT_DELAY, watch)
    try:
        yield
    finally:
        timer.cancel()
        loop.remove_reader(descriptor)


def _has_data(descriptor: int) -> bool:
    """Whether there is data to read, not only the end of the file."""
    about = os.fstat(descriptor)
    if stat.S_ISREG(about.st_mode):
        return about.st_size > os.lseek(descriptor, 0, os.SEEK_CUR)
    waiting = array.array("i", [0])
    with suppress(OSError):  # a device without FIONREAD, such as /dev/null, has no data
        fcntl.ioctl(descriptor, termios.FIONREAD, waiting)
    return waiting[0] > 0
