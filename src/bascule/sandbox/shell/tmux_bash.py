"""Bash in a tmux pane."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import termios
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .bash import BashProcess, quiet
from .keeper import Keeper
from .marks import OURS, fence, for_eyes, new_nonce, unfinished_mark, unfinished_show
from .settings import ShellSettings
from .tmux_host import TmuxHost, TmuxPane

_TYPED = 65536
_OPEN = os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC


class TmuxBash(BashProcess):
    """Bash whose output goes to tmux first and arrives from there with a short delay.

    So that all has come is known by a mark only: bash's own after a command, and one that we write
    to the terminal ourselves where bash cannot.
    """

    _hearing = socket.MSG_PEEK  # if we are killed the next server hears it, at worst again

    def __init__(
        self,
        name: str,
        host: TmuxHost,
        settings: ShellSettings,
        *,
        on_output: Callable[[bytes], None],
        on_said: Callable[[bytes], None],
        on_end: Callable[[int], None],
        on_replaced: Callable[[], None],
    ) -> None:
        super().__init__(
            on_output=on_output, on_said=on_said, on_end=on_end, on_replaced=on_replaced
        )
        self._name = name
        self._host = host
        self._settings = settings
        self._ours: dict[bytes, Callable[[], None]] = {}
        """What we wrote to the terminal and have not seen come back, by nonce."""
        self._on_line: Callable[[bytes], None] | None = None
        self._unwritten = bytearray()
        self._rest = b""
        self._pane: TmuxPane | None = None
        self.position = 0
        """In the host's stream: what came before has been delivered."""

    async def start(self, keeper: Keeper, *, cwd: str, env: Mapping[str, str]) -> None:
        settings = self._settings
        pane = await self._host.pane(self._name, rows=settings.rows, columns=settings.columns)
        self.position = self._host.position
        self._take_terminal(pane)
        self._modes = quiet(self._tty)
        terminal = os.open(self.terminal, _OPEN)  # ours does not block, bash's has to
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
        """Take over a bash that a server before us started and `remembered`."""
        self.pid, self.position = remembered["pid"], remembered["stream"]
        self._modes = bytes.fromhex(remembered["modes"])
        self._ours = {nonce.encode(): _nothing for nonce in remembered["ours"]}
        self._channel, self._channel_name = socket.socket(fileno=channel), remembered["channel"]
        self._channel.setblocking(False)
        self._was_typed_into = True
        self.is_alive = True
        with contextlib.suppress(OSError):  # it went away with its tmux; the host will tell
            self._take_terminal(pane)
        self._loop.add_reader(self._channel, self._channel_readable)

    def remembered(self) -> dict[str, object]:
        """What `adopt` needs to be told."""
        return {
            "pid": self.pid,
            "channel": self._channel_name,
            "modes": self._modes.hex(),
            "stream": self.position,
            "ours": [nonce.decode() for nonce in self._ours],
        }

    def foreground(self) -> int:
        """As /proc has it: the terminal itself tells only those whose own it is."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_bytes()
        except OSError:
            return -1
        return int(stat.rpartition(b")")[2].split()[5])

    def settle(self) -> None:
        self._on_line = None
        self._loop.remove_reader(self._tty)
        self._was_typed_into = True  # by people, or by tmux answering a program; who knows
        with contextlib.suppress(OSError):  # its terminal is gone, and bash learns of it as we do
            super().settle()

    def drain(self) -> None:
        """Nothing can be had sooner than it comes."""

    def after_output(self, callback: Callable[[], None]) -> None:
        if self._tty < 0 or not self._host.is_running:
            callback()
            return
        nonce = new_nonce()
        self._ours[nonce.encode()] = callback
        self._unwritten += fence(nonce)
        self._terminal_writable()

    def show(self, text: bytes) -> None:
        """Show people `text`; nobody else gets it."""
        if self._tty >= 0:
            nonce = new_nonce()
            self._ours[nonce.encode()] = _nothing
            self._unwritten += for_eyes(text, nonce)
            self._terminal_writable()

    def invite(self, prompt: bytes, on_line: Callable[[bytes], None]) -> None:
        """Let people type one line, which `on_line` gets, until the next command."""
        self.show(prompt)
        try:
            modes = termios.tcgetattr(self._tty)
            modes[3] = (modes[3] | termios.ECHO | termios.ICANON) & ~termios.ISIG
            termios.tcsetattr(self._tty, termios.TCSANOW, modes)
        except (termios.error, ValueError):
            return  # the terminal is gone, or closed already
        self._on_line = on_line
        self._loop.add_reader(self._tty, self._typed)

    def _typed(self) -> None:
        try:
            line = os.read(self._tty, _TYPED)
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
        self._tty = os.open(self.terminal, _OPEN | os.O_NONBLOCK)

    def _pane_output(self, data: bytes, end: int) -> None:
        if end <= self.position:
            return  # the server before us had it
        self.position = end
        data, self._rest = self._rest + data, b""
        while self._ours and (mark := OURS.search(data)) is not None:
            callback = self._ours.pop(mark[1], None)
            self._deliver(data[: mark.start() if callback else mark.end()])
            data = data[mark.end() :]
            if callback is not None:
                callback()
        if self._ours:
            held = max(unfinished_show(data, nonce) for nonce in self._ours)
            if held := held or unfinished_mark(data):
                data, self._rest = data[:-held], data[-held:]
        self._deliver(data)

    def _deliver(self, data: bytes) -> None:
        if data:
            self._on_output(data)

    def _lost(self) -> None:
        """The pane is gone, or all of tmux: nothing more will come, and bash has no terminal.

        It is told by a signal, which it may ignore, so it is ended.
        """
        ours, self._ours = self._ours, {}
        for callback in ours.values():
            callback()
        if self.is_alive:
            self.kill()
            self.ended(-signal.SIGHUP)

    def _write(self, data: bytes) -> None:
        if self._pane is not None and self._host.is_running:
            self._host.type(self._pane, data)

    def _forget_typed(self) -> None:
        """tmux has it already."""

    def _terminal_writable(self) -> None:
        self._loop.remove_writer(self._tty)
        while self._unwritten:
            try:
                sent = os.write(self._tty, self._unwritten)
            except BlockingIOError:
                self._loop.add_writer(self._tty, self._terminal_writable)
                return
            except OSError:
                self._unwritten.clear()  # the terminal is gone
                self._lost()
                return
            del self._unwritten[:sent]


def _nothing() -> None:
    """Nobody waits for it."""
