"""Bash in a tmux pane."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import termios
from collections.abc import Callable, Mapping
from typing import Any

from bascule.sandbox.process_table import process_info

from .bash import BashProcess, quiet
from .keeper import Keeper
from .marks import OURS, fence, new_nonce, terminal_only, unfinished_mark, unfinished_terminal_only
from .settings import ShellSettings
from .tmux_host import TmuxHost, TmuxPane

_MAX_TYPED_BYTES = 65536
_TERMINAL_FLAGS = os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC


class TmuxBash(BashProcess):
    """Bash whose output goes to tmux first and arrives from there with a short delay.

    So only a mark shows that all output has arrived: the end mark of a command, or, where bash
    cannot print an end mark, a fence mark that we write to the terminal ourselves.
    """

    # If we are killed, the next server can read the data, at worst a second time.
    _receive_flags = socket.MSG_PEEK

    def __init__(
        self,
        name: str,
        host: TmuxHost,
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
        self._name = name
        self._host = host
        self._settings = settings
        self._ours: dict[bytes, Callable[[], None]] = {}
        """Text that we wrote to the terminal and have not read back yet, by nonce."""
        self._on_line: Callable[[bytes], None] | None = None
        self._unwritten = bytearray()
        self._rest = b""
        self._pane: TmuxPane | None = None
        self.position = 0
        """Position in the host's stream up to which output has been delivered."""

    async def start(self, keeper: Keeper, *, cwd: str, env: Mapping[str, str]) -> None:
        settings = self._settings
        pane = await self._host.pane(self._name, rows=settings.rows, columns=settings.columns)
        self.position = self._host.position
        self._take_terminal(pane)
        self._modes = quiet(self._tty)
        # Bash needs its own descriptor: reads on it must block, and reads on ours must not.
        terminal = os.open(self.terminal, _TERMINAL_FLAGS)
        try:
            await self._spawn(keeper, terminal=terminal, cwd=cwd, env=env, settings=settings)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(terminal)
        assert self._channel is not None
        keeper.hold(self._name, self._channel.fileno())

    def adopt(self, pane: TmuxPane, channel: int, remembered: Mapping[str, Any]) -> None:
        """Take over a bash of the previous server; `remembered` is its saved state."""
        self.pid, self.position = remembered["pid"], remembered["stream"]
        self._modes = bytes.fromhex(remembered["modes"])
        self._ours = {nonce.encode(): _nothing for nonce in remembered["ours"]}
        self._channel, self._channel_name = socket.socket(fileno=channel), remembered["channel"]
        self._channel.setblocking(False)
        self._was_typed_into = True
        self.is_alive = True
        with contextlib.suppress(OSError):  # closed together with tmux; the host calls `_lost`
            self._take_terminal(pane)
        self._loop.add_reader(self._channel, self._channel_readable)

    def remembered(self) -> dict[str, object]:
        """Return the state that `adopt` needs."""
        return {
            "pid": self.pid,
            "channel": self._channel_name,
            "modes": self._modes.hex(),
            "stream": self.position,
            "ours": [nonce.decode() for nonce in self._ours],
        }

    def foreground(self) -> int:
        """Read from /proc: `tcgetpgrp` works only on one's own controlling terminal."""
        found = process_info(self.pid)
        return -1 if found is None else found.foreground

    def settle(self) -> None:
        self._on_line = None
        self._loop.remove_reader(self._tty)
        self._was_typed_into = True  # people, or tmux answering a program, may have typed
        with contextlib.suppress(OSError):  # the terminal was closed; `_lost` handles that
            super().settle()

    def drain(self) -> None:
        """Do nothing: output cannot be read before tmux sends it."""

    def after_output(self, callback: Callable[[], None]) -> None:
        if self._tty < 0 or not self._host.is_running:
            # No mark can be written. All output has arrived already, unless bash ended while no
            # server was running: then the host delivers it in `resume`.
            self._host.after_backlog(callback)
            return
        nonce = new_nonce()
        self._ours[nonce.encode()] = callback
        self._unwritten += fence(nonce)
        self._terminal_writable()

    def show(self, text: bytes) -> None:
        """Show `text` to people at the terminal; it is not part of the output."""
        if self._tty >= 0:
            nonce = new_nonce()
            self._ours[nonce.encode()] = _nothing
            self._unwritten += terminal_only(text, nonce)
            self._terminal_writable()

    def invite(self, prompt: bytes, on_line: Callable[[bytes], None]) -> None:
        """Let people type one line before the next command, and call `on_line` with the line."""
        self.show(prompt)
        try:
            modes = termios.tcgetattr(self._tty)
            modes[3] = (modes[3] | termios.ECHO | termios.ICANON) & ~termios.ISIG
            termios.tcsetattr(self._tty, termios.TCSANOW, modes)
        except (termios.error, ValueError):
            return  # the terminal is closed
        self._on_line = on_line
        self._loop.add_reader(self._tty, self._typed)

    def _typed(self) -> None:
        try:
            line = os.read(self._tty, _MAX_TYPED_BYTES)
        except BlockingIOError:
            return
        except OSError:
            line = b""
        self._loop.remove_reader(self._tty)
        if (on_line := self._on_line) is not None:
            self._on_line = None
            on_line(line)

    def close(self) -> None:
        super().close()
        if self._pane is not None:
            self._host.leave(self._pane)
        if self._tty >= 0:
            self._loop.remove_writer(self._tty)
            self._loop.remove_reader(self._tty)
            os.close(self._tty)
            self._tty = -1

    def _take_terminal(self, pane: TmuxPane) -> None:
        self._pane, self.terminal = pane, pane.terminal
        self._host.listen(pane, self._pane_output, self._lost)
        self._tty = os.open(self.terminal, _TERMINAL_FLAGS | os.O_NONBLOCK)

    def _pane_output(self, data: bytes, end: int) -> None:
        if end <= self.position:
            return  # the previous server has handled this output
        self.position = end
        data, self._rest = self._rest + data, b""
        while self._ours and (mark := OURS.search(data)) is not None:
            callback = self._ours.pop(mark[1], None)
            self._deliver(data[: mark.start() if callback else mark.end()])
            data = data[mark.end() :]
            if callback is not None:
                callback()
        if self._ours:
            held = max(unfinished_terminal_only(data, nonce) for nonce in self._ours)
            if held := held or unfinished_mark(data):
                data, self._rest = data[:-held], data[-held:]
        self._deliver(data)

    def _deliver(self, data: bytes) -> None:
        if data:
            self._on_output(data)

    def _lost(self) -> None:
        """Handle the end of the pane or of tmux: no more output arrives, and bash has no terminal.

        The kernel sends SIGHUP to bash, but bash may ignore it.
        """
        ours, self._ours = self._ours, {}
        for callback in ours.values():
            callback()
        if self.is_alive:
            self._host.keeper.hang_up(self.pid)
            self.ended(-signal.SIGHUP)

    def _write(self, data: bytes) -> None:
        if self._pane is not None and self._host.is_running:
            self._host.type(self._pane, data)

    def _forget_typed(self) -> None:
        """Do nothing: tmux has received the input already."""

    def _terminal_writable(self) -> None:
        self._loop.remove_writer(self._tty)
        while self._unwritten:
            try:
                sent = os.write(self._tty, self._unwritten)
            except BlockingIOError:
                self._loop.add_writer(self._tty, self._terminal_writable)
                return
            except OSError:
                self._unwritten.clear()  # the terminal was closed
                self._host.after_backlog(self._lost)
                return
            del self._unwritten[:sent]


def _nothing() -> None:
    """A callback for text that nobody waits for."""
