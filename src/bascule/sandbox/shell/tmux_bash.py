"""Bash on a terminal whose other side is tmux's."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from .bash import BashProcess, quiet
from .keeper import Keeper
from .marks import FENCE, fence, new_nonce, unfinished_mark
from .settings import ShellSettings
from .tmux_host import Pane, TmuxHost

_OURS = os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC


class TmuxBash(BashProcess):
    """What is printed goes to tmux first and comes from there, a little later than it was printed.

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
        self._fences: dict[bytes, Callable[[], None]] = {}
        self._unwritten = bytearray()
        self._rest = b""
        self._pane: Pane | None = None
        self.position = 0
        """In the host's stream: what came before has been delivered."""

    async def start(self, keeper: Keeper, *, cwd: str, env: Mapping[str, str]) -> None:
        settings = self._settings
        pane = await self._host.pane(self._name, rows=settings.rows, columns=settings.columns)
        self.position = self._host.position
        self._take_terminal(pane)
        self._modes = quiet(self._tty)
        terminal = os.open(self.terminal, _OURS)  # ours does not block, bash's has to
        try:
            await self._spawn(keeper, terminal=terminal, cwd=cwd, env=env, settings=settings)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(terminal)
        assert self._channel is not None
        keeper.hold(self._name, self._channel.fileno())

    def adopt(self, pane: Pane, *, pid: int, channel: int, channel_name: str, modes: bytes) -> None:
        """Take over a bash that a server before us started; `position` has been set."""
        self.pid = pid
        self._modes = modes
        self._channel, self._channel_name = socket.socket(fileno=channel), channel_name
        self._channel.setblocking(False)
        self._was_typed_into = True
        self.is_alive = True
        self._take_terminal(pane)
        self._loop.add_reader(self._channel, self._channel_readable)

    def remembered(self) -> dict[str, object]:
        """What `adopt` needs to be told."""
        return {
            "pid": self.pid,
            "channel": self._channel_name,
            "modes": self._modes.hex(),
            "stream": self.position,
        }

    def foreground(self) -> int:
        """As /proc has it: the terminal itself tells only those whose own it is."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_bytes()
        except OSError:
            return -1
        return int(stat.rpartition(b")")[2].split()[5])

    def settle(self) -> None:
        self._was_typed_into = True  # by people, or by tmux answering a program; who knows
        super().settle()

    def drain(self) -> None:
        """Nothing can be had sooner than it comes."""

    def after_output(self, callback: Callable[[], None]) -> None:
        if self._tty < 0 or not self._host.is_running:
            callback()
            return
        nonce = new_nonce()
        self._fences[nonce.encode()] = callback
        self._unwritten += fence(nonce)
        self._terminal_writable()

    def close(self) -> None:
        super().close()
        if self._pane is not None:
            self._host.leave(self._pane)
        if self._tty >= 0:
            self._loop.remove_writer(self._tty)
            os.close(self._tty)
            self._tty = -1

    def _take_terminal(self, pane: Pane) -> None:
        self._pane, self.terminal = pane, pane.terminal
        self._tty = os.open(self.terminal, _OURS | os.O_NONBLOCK)
        self._host.listen(pane, self._pane_output, self._lost)

    def _pane_output(self, data: bytes, end: int) -> None:
        if end <= self.position:
            return  # the server before us had it
        self.position = end
        data, self._rest = self._rest + data, b""
        while self._fences and (mark := FENCE.search(data)) is not None:
            self._deliver(data[: mark.start()])
            data = data[mark.end() :]
            if (callback := self._fences.pop(mark[1], None)) is not None:
                callback()
        if self._fences and (held := unfinished_mark(data)):
            data, self._rest = data[:-held], data[-held:]
        self._deliver(data)

    def _deliver(self, data: bytes) -> None:
        if data:
            self._on_output(data)

    def _lost(self) -> None:
        """tmux is gone: nothing more will come."""
        fences, self._fences = self._fences, {}
        for callback in fences.values():
            callback()

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
