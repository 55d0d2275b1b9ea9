"""Bash on a pseudo-terminal that this process reads."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import termios
from collections.abc import Callable, Mapping

from .bash import BashProcess, quiet
from .keeper import Keeper
from .settings import ShellSettings

_READ_BYTES = 65536
_MAX_READS = 16
"""Maximum number of reads before other tasks of the event loop run."""
_PTY_CHUNK = 4095
"""Maximum bytes that one read of a pseudo-terminal returns."""
_MAX_DRAINED = 4 << 20
"""Maximum bytes that one `drain` reads."""


class PtyBash(BashProcess):
    """Bash whose terminal output is read directly from the kernel."""

    def __init__(
        self,
        settings: ShellSettings,
        *,
        on_output: Callable[[bytes], None],
        on_message: Callable[[bytes], None],
        on_end: Callable[[int], None],
        on_replaced: Callable[[], None],
    ) -> None:
        super().__init__(
            on_output=on_output, on_message=on_message, on_end=on_end, on_replaced=on_replaced
        )
        self._settings = settings
        self._untyped = bytearray()

    async def start(self, keeper: Keeper, *, cwd: str, env: Mapping[str, str]) -> None:
        settings = self._settings
        self._tty, terminal = os.openpty()
        self.terminal = os.ttyname(terminal)
        size = struct.pack("HHHH", settings.rows, settings.columns, 0, 0)
        fcntl.ioctl(self._tty, termios.TIOCSWINSZ, size)
        self._modes = quiet(self._tty)
        os.set_blocking(self._tty, False)
        try:
            await self._spawn(keeper, terminal=terminal, cwd=cwd, env=env, settings=settings)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(terminal)
        self._loop.add_reader(self._tty, self._readable)

    def foreground(self) -> int:
        try:
            return os.tcgetpgrp(self._tty)
        except OSError:
            return -1

    def close(self) -> None:
        super().close()
        if self._tty >= 0:
            self._loop.remove_reader(self._tty)
            self._loop.remove_writer(self._tty)
            os.close(self._tty)
            self._tty = -1

    def after_output(self, callback: Callable[[], None]) -> None:
        self.drain()
        callback()

    def drain(self) -> None:
        """Deliver all output printed so far.

        The kernel returns EAGAIN only if no output is pending, so afterwards nothing is missing. A
        terminal buffers little; the limit is for a background job that prints without end.
        """
        left = _MAX_DRAINED
        while self._tty >= 0 and left > 0 and (data := self._read()):
            left -= len(data)
            self._on_output(data)

    def _readable(self) -> None:
        data = self._read()
        if data:
            self._on_output(data)
        elif data is not None and self._tty >= 0:
            # No process has the terminal open, so there is no more output. The keeper reports the
            # exit.
            self._loop.remove_reader(self._tty)

    def _read(self) -> bytes | None:
        """Return available output: None if there is none, b"" if the other side is closed."""
        parts: list[bytes] = []
        for _ in range(_MAX_READS):
            try:
                part = os.read(self._tty, _READ_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.EIO:  # EIO: the last process closed its side
                    raise
                part = b""
            if not part:
                return b"".join(parts)
            parts.append(part)
            if len(part) < _PTY_CHUNK:
                break  # a shorter read means that the terminal is empty
        return b"".join(parts) or None

    def _writable(self) -> None:
        self._loop.remove_writer(self._tty)
        while self._untyped:
            try:
                sent = os.write(self._tty, self._untyped)
            except BlockingIOError:
                self._loop.add_writer(self._tty, self._writable)
                return
            except OSError:
                sent = len(self._untyped)  # no process reads the terminal any longer
            del self._untyped[:sent]

    def _write(self, data: bytes) -> None:
        self._untyped += data
        self._writable()

    def _forget_typed(self) -> None:
        self._untyped.clear()
