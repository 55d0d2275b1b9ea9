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

_PATIENCE: Final = 1.0
"""Seconds a command runs before its caller may wonder. In a loop that reads from our stdin itself
(`while read …`) most are over by then, and nothing is said."""


@contextmanager
def told_of_unread_input() -> Iterator[None]:
    """While open, and after a moment: if something waits on stdin, say once that nobody reads it.

    Nothing of it is read. Without data (a terminal, /dev/null, a pipe that is just inherited)
    nothing is said.
    """
    if sys.stdin is None or sys.stdin.isatty():
        yield
        return
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()

    def look() -> None:
        if _has_data(descriptor):
            print(  # noqa: T201
                "bascule: stdin is not passed on to the command (use a file, or a "
                "heredoc inside the command)",
                file=sys.stderr,
            )
        loop.remove_reader(descriptor)

    def watch() -> None:
        try:
            loop.add_reader(descriptor, look)
        except PermissionError:  # a file: all it holds is there already, and none can be awaited
            look()

    timer = loop.call_later(_PATIENCE, watch)
    try:
        yield
    finally:
        timer.cancel()
        loop.remove_reader(descriptor)


def _has_data(descriptor: int) -> bool:
    """Something can be read that is not just the end."""
    about = os.fstat(descriptor)
    if stat.S_ISREG(about.st_mode):
        return about.st_size > os.lseek(descriptor, 0, os.SEEK_CUR)
    waiting = array.array("i", [0])
    with suppress(OSError):  # a device that cannot tell, such as /dev/null, has nothing for us
        fcntl.ioctl(descriptor, termios.FIONREAD, waiting)
    return waiting[0] > 0
