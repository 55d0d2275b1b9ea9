"""Reads and writes the sandbox's ends of a program's pipes, or of its terminal."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from bascule.core.errors import InvalidRequest, ProgramInputClosed

READ_BYTES: Final = 256 << 10
"""Maximum bytes of one read."""
_PIPE_BYTES: Final = 256 << 10
"""Size of the pipes for stdin and stdout. With the default of 64 KiB, copying much data takes twice
as long."""
_MAX_READS: Final = 4
"""Maximum number of reads before other tasks of the event loop run."""
_MAX_DRAINS: Final = 64


def enlarge(pipe: int) -> None:
    """Enlarge a pipe's buffer. No effect if the user's pipes have reached the kernel's limit."""
    with suppress(OSError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


class PipeReader:
    """Passes on the output of one descriptor while `may_read` allows it. Closes it at its end."""

    def __init__(
        self, fd: int, *, may_read: Callable[[], bool], on_data: Callable[[bytes], None]
    ) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._may_read = may_read
        self._on_data = on_data
        self._is_reading = False
        self._has_more = True
        """Whether the last read may have left something to read."""

    def read(self) -> None:
        """Read the available output, and wait for more. Stops if there is no room for it; call
        `read` again once there is room."""
        for _ in range(_MAX_READS):
            if self._fd < 0:
                return
            self._has_more = True
            if not self._may_read():
                self._stop()
                return
            try:
                data = os.read(self._fd, READ_BYTES)
            except BlockingIOError:
                self._has_more = False
                break
            except OSError as error:
                if error.errno != errno.EIO:  # EIO: nobody has the terminal open any longer
                    raise
                data = b""
            if not data:
                self.close()
                return
            self._on_data(data)
            if len(data) < READ_BYTES:
                break  # other tasks run before the next read, which the loop announces
        if not self._is_reading:
            self._is_reading = True
            self._loop.add_reader(self._fd, self.read)

    def drain(self) -> bool:
        """Read everything that was printed so far; False if there is no room for it now.

        A child in the background that prints without end is not waited for.
        """
        for _ in range(_MAX_DRAINS):
            self.read()
            if self._fd < 0 or not self._has_more:
                return True
            if not self._is_reading:
                return False
        return True

    def close(self) -> None:
        self._stop()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _stop(self) -> None:
        if self._is_reading:
            self._loop.remove_reader(self._fd)
            self._is_reading = False


class PipeWriter:
    """Writes to stdin as fast as the program reads."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._writable: asyncio.Future[None] | None = None
        self.accepted = 0
        """Bytes that the pipe has accepted so far."""

    @property
    def fd(self) -> int:
        """The descriptor; -1 once it is closed."""
        return self._fd

    async def write(
        self,
        data: bytes | memoryview,
        *,
        start: int | None = None,
        timeout: float | None = None,
    ) -> int:
        """Write all of `data`, or what the pipe accepts within `timeout` seconds. Returns how many
        bytes of `data` stdin has accepted.

        `start`: the position of `data` in stdin. Bytes that stdin has already are skipped, so a
        write can be repeated. Raises `InvalidRequest` if bytes before `start` are missing.
        """
        left = memoryview(data)
        try:
            async with asyncio.timeout(timeout), self._turn:
                if start is not None:
                    left = left[self._skipped(start) :]
                while left:
                    written = self._write(left)
                    self.accepted += written
                    left = left[written:]
                    if left:
                        await self._until_writable()
        except TimeoutError:
            pass  # the returned number shows how much was written
        return len(data) - len(left)

    def _skipped(self, start: int) -> int:
        if start > self.accepted:
            raise InvalidRequest(
                f"stdin has {self.accepted} bytes so far, so a write cannot start at {start}",
                accepted=self.accepted,
            )
        return self.accepted - start

    def _write(self, data: memoryview) -> int:
        if self._fd < 0:
            raise ProgramInputClosed("The program's stdin is closed: nothing more can be written")
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0
        except OSError as error:  # EPIPE, or EIO for a terminal
            raise ProgramInputClosed(
                "The program has closed its stdin, or has ended: nothing more can be written"
            ) from error

    async def _until_writable(self) -> None:
        if self._fd < 0:
            return
        writable = self._writable = self._loop.create_future()
        self._loop.add_writer(self._fd, self._wake)
        try:
            await writable
        finally:
            self._writable = None
            if self._fd >= 0:
                self._loop.remove_writer(self._fd)

    def _wake(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    def close(self) -> None:
        """Close the descriptor. A running write fails."""
        if self._fd >= 0:
            self._loop.remove_writer(self._fd)
            with suppress(OSError):
                os.close(self._fd)
            self._fd = -1
            self._wake()
