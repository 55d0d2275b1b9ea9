"""Interactive terminals for people in a session: bash on a pseudo-terminal.

These terminals are not the shells of agents: they have no marks around commands and return no
observations.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import shutil
import struct
import termios
from collections.abc import Callable, Mapping
from typing import Final

from bascule.core.contracts import Closable
from bascule.core.errors import InvalidRequest, NoSuchShell
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.shell.settings import shell_environment

MAX_TERMINALS: Final = 16
_MAX_KEPT: Final = 256 << 10
"""Bytes of recent output kept for each terminal, for clients that reconnect."""
_READ_BYTES: Final = 65536
_MAX_TERMINAL_SIDE: Final = 1000
_SHELL: Final = "/bin/bash"

OnOutput = Callable[[int, bytes], None]
"""Called with the position and data of each piece of output; empty data means the end."""


class SessionTerminal:
    """One bash and its recent output. `SessionTerminals` opens and closes it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.end = 0
        """Bytes of output since the start."""
        self.is_over = False
        self.pid = 0
        self._loop = asyncio.get_running_loop()
        self._tty = -1
        self._recent = bytearray()
        self._unwritten = bytearray()
        self._listeners: set[OnOutput] = set()

    async def start(self, sandbox: Sandbox, *, columns: int, rows: int) -> None:
        self._tty, bash_tty = os.openpty()
        try:
            os.set_blocking(self._tty, False)
            self.resize(columns, rows)
            settings = sandbox.settings.shells
            env = _environment(shell_environment(settings))
            bash = await asyncio.to_thread(shutil.which, "bash", path=env.get("PATH"))
            self.pid = await sandbox.shells.keeper.spawn(
                (bash or _SHELL, "-i"),
                env=env,
                cwd=str(settings.working_dir),
                terminal=bash_tty,
                channel=bash_tty,
                account=settings.account,
                on_exit=lambda _: self.close(),
            )
        except BaseException:
            self.close()
            raise
        finally:
            os.close(bash_tty)
        if self._tty >= 0:
            self._loop.add_reader(self._tty, self._readable)

    def resize(self, columns: int, rows: int) -> None:
        if self._tty >= 0:
            fcntl.ioctl(self._tty, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: bytes) -> None:
        if self._tty >= 0:
            self._unwritten += keys
            self._write()

    def output_from(self, start: int) -> tuple[int, bytes]:
        """Return the kept output from position `start` on, after the position where it really
        starts."""
        first = self.end - len(self._recent)
        start = min(max(start, first), self.end)
        return start, bytes(self._recent[start - first :])

    def subscribe(self, listener: OnOutput) -> Callable[[], None]:
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def close(self) -> None:
        """Read the remaining output and close the terminal."""
        if self._tty >= 0:
            self._drain()
            self._loop.remove_reader(self._tty)
            self._loop.remove_writer(self._tty)
            os.close(self._tty)
            self._tty = -1
        if not self.is_over:
            self.is_over = True
            self._publish(b"")

    def _readable(self) -> None:
        if self._read() == b"":
            self._loop.remove_reader(self._tty)  # the keeper reports the exit of bash

    def _drain(self) -> None:
        while self._read():
            pass

    def _read(self) -> bytes | None:
        """Read once. None: no output now. Empty: no more output ever."""
        try:
            data = os.read(self._tty, _READ_BYTES)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno != errno.EIO:  # EIO: the last process closed its side
                raise
            return b""
        if data:
            self._publish(data)
        return data

    def _publish(self, data: bytes) -> None:
        start = self.end
        self.end += len(data)
        self._recent += data
        del self._recent[:-_MAX_KEPT]
        for listener in tuple(self._listeners):
            listener(start, data)

    def _write(self) -> None:
        self._loop.remove_writer(self._tty)
        try:
            del self._unwritten[: os.write(self._tty, self._unwritten)]
        except BlockingIOError:
            pass
        except OSError:
            self._unwritten.clear()  # no process reads the terminal any longer
        if self._unwritten:
            self._loop.add_writer(self._tty, self._write)


class SessionTerminals(Closable):
    """The terminals of a session, by name."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._terminals: dict[str, SessionTerminal] = {}
        self._opening = asyncio.Lock()

    async def open(self, name: str, *, columns: int, rows: int) -> SessionTerminal:
        """Return the terminal of that name, resized. Open a new terminal if none has this name, or
        if its bash has ended."""
        _ensure_size(columns, rows)
        async with self._opening:
            known = self._terminals.get(name)
            if known is not None and not known.is_over:
                known.resize(columns, rows)
                return known
            if known is None and len(self._terminals) >= MAX_TERMINALS:
                raise InvalidRequest(
                    f"{MAX_TERMINALS} terminals are open in this session; close one"
                )
            terminal = SessionTerminal(name)
            await terminal.start(self._sandbox, columns=columns, rows=rows)
            self._terminals[name] = terminal
            return terminal

    def get(self, name: str) -> SessionTerminal:
        terminal = self._terminals.get(name)
        if terminal is None:
            raise NoSuchShell(f"There is no terminal {name!r} in this session")
        return terminal

    async def end(self, name: str) -> None:
        terminal = self.get(name)
        await self._sandbox.shells.keeper.end(terminal.pid)
        terminal.close()
        self._terminals.pop(name, None)

    async def aclose(self) -> None:
        """Close all terminals. The sandbox's keeper ends their processes."""
        for terminal in self._terminals.values():
            terminal.close()


def _ensure_size(columns: int, rows: int) -> None:
    if not (0 < columns <= _MAX_TERMINAL_SIDE and 0 < rows <= _MAX_TERMINAL_SIDE):
        raise InvalidRequest(f"A terminal has 1 to {_MAX_TERMINAL_SIDE} columns and rows")


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    """Remove `cat` as the pager: here a person can use a pager that waits for keys."""
    given = {name: value for name, value in env.items() if name not in ("PAGER", "GIT_PAGER")}
    return {**given, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
