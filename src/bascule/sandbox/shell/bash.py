"""One bash process: its command channel, signals to it, and its state in /proc.

Who has the other side of its terminal is the kind's own: `PtyBash` itself, `TmuxBash` tmux.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import os
import shutil
import signal
import socket
import struct
import termios
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path

from bascule.core.errors import MissingTool, SandboxStartFailed

from .keeper import Keeper
from .marks import HIDDEN_PROMPT, init_line
from .settings import ShellSettings

_SAID = 8192
_SHELLS = frozenset({"bash", "sh", "dash", "zsh", "fish", "ksh", "busybox"})


class BashProcess(ABC):
    """Bash with a command channel as its input and a terminal for everything it runs.

    `on_output` gets what is printed, `on_said` what bash says on the channel, `on_end` once the
    status (negative: a signal), after the last output; `on_replaced` when `exec` put another
    program in bash's place. Nothing is awaited here: the owner drives it from the event loop that
    opened it.
    """

    _hearing = 0
    """How the channel is read. With MSG_PEEK what bash says stays there until it was acted on."""

    def __init__(
        self,
        *,
        on_output: Callable[[bytes], None],
        on_said: Callable[[bytes], None],
        on_end: Callable[[int], None],
        on_replaced: Callable[[], None],
    ) -> None:
        self._on_output = on_output
        self._on_said = on_said
        self._on_end = on_end
        self._on_replaced = on_replaced
        self._loop = asyncio.get_running_loop()
        self._tty = -1
        """A descriptor of the terminal: either side, for its modes."""
        self._channel: socket.socket | None = None
        self._channel_name = ""
        self._unsent = bytearray()
        self._modes = b""
        self._was_typed_into = False
        self.pid = -1
        self.terminal = ""
        """The terminal's name, `/dev/pts/N`."""
        self.is_alive = False
        self.left_lines_unread = False
        """It ended before it had read all that it was told."""
        self._ended_at_once: int | None = None

    @abstractmethod
    async def start(self, keeper: Keeper, *, cwd: str, env: Mapping[str, str]) -> None: ...

    @abstractmethod
    def foreground(self) -> int:
        """The process group in the foreground; bash's own when it runs a builtin or nothing."""

    @abstractmethod
    def drain(self) -> None:
        """Deliver all that was printed up to now and can be had at once."""

    @abstractmethod
    def after_output(self, callback: Callable[[], None]) -> None:
        """Call back once all that was printed up to now has been delivered."""

    @abstractmethod
    def _write(self, data: bytes) -> None:
        """Type exactly these bytes."""

    @abstractmethod
    def _forget_typed(self) -> None:
        """Drop what is still to be typed."""

    async def _spawn(
        self,
        keeper: Keeper,
        *,
        terminal: int,
        cwd: str,
        env: Mapping[str, str],
        settings: ShellSettings,
    ) -> None:
        """Start bash on `terminal`, which is the caller's to close, and listen to it."""
        bash = _find_bash(env.get("PATH"))
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._channel, self._channel_name = ours, _socket_name(theirs)
        try:
            self.pid = await keeper.spawn(
                [bash, "--norc", "--noprofile", "--noediting", "-i"],
                env={**env, "PS1": HIDDEN_PROMPT},
                cwd=cwd,
                terminal=terminal,
                channel=theirs.fileno(),
                account=settings.account,
                on_exit=self.ended,
            )
        finally:
            theirs.close()
        if self._ended_at_once is not None:
            raise SandboxStartFailed(f"{bash} ended at once, with status {self._ended_at_once}")
        self.is_alive = True
        self._loop.add_reader(ours, self._channel_readable)
        self.tell(init_line(terminal=self.terminal, load_rc=settings.load_rc))

    def tell(self, lines: bytes) -> None:
        """Write command lines; what the channel does not take at once follows by itself."""
        if self._channel is None:
            return
        if not self._unsent:
            try:
                sent = self._channel.send(lines)
            except BlockingIOError:
                sent = 0
            except OSError:
                self.left_lines_unread = True
                return  # bash is gone; its end is reported by the keeper
            if sent == len(lines):
                return
            lines = lines[sent:]
            self._loop.add_writer(self._channel, self._channel_writable)
        self._unsent += lines

    def type(self, data: bytes) -> None:
        """Type into whatever reads the terminal.

        A terminal that edits lines holds no more than 4,095 bytes of one. A longer line is handed
        over in pieces, each pushed by the end-of-file key, which after text means no more than
        "take this now"; the reader sees the same bytes.
        """
        try:
            modes = termios.tcgetattr(self._tty)
        except termios.error:
            return  # tmux took the terminal away
        if modes[3] & termios.ICANON and len(data) > _TYPED_LINE:
            push = modes[6][termios.VEOF]
            lines = data.split(b"\n")
            data = b"\n".join(
                push.join(line[i : i + _TYPED_LINE] for i in range(0, len(line) or 1, _TYPED_LINE))
                for line in lines
            )
        self._was_typed_into = True
        self._write(data)

    def press(self, key: str) -> None:
        """Press a control key, `C-c`. Keys that signal do so directly, losing no output."""
        byte = bytes([ord(key[-1].upper()) & 0x1F])
        number = _SIGNALS.get(byte)
        if number is None or not self.signal(number):
            self.type(byte)

    def signal(self, number: int) -> bool:
        """Signal what is in the foreground as its key would; False if only the key can."""
        if number in _KEY_SIGNALS and not self._signals_by_keys():
            return False  # the program asked to get keys as bytes
        group = self.foreground()
        if group <= 0:
            return False
        try:
            os.killpg(group, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _signals_by_keys(self) -> bool:
        try:
            return bool(termios.tcgetattr(self._tty)[3] & termios.ISIG)
        except termios.error:
            return True  # tmux took the terminal away

    def is_in_command(self) -> bool:
        """Bash has read the whole line and runs the command in it: its input is not the channel."""
        return self._descriptor(0) != self._channel_name

    def has_terminal(self) -> bool:
        """Bash still has its own descriptor of the terminal, which it gives to every command."""
        return self._descriptor(_KEPT_TERMINAL) == self.terminal

    def is_starting_program(self) -> bool:
        """What is in the foreground is still a copy of bash, about to become something else (or a
        subshell, which looks the same)."""
        group = self.foreground()
        if group in (-1, self.pid):
            return False
        try:
            program = Path(f"/proc/{group}/exe").readlink()
            return program == Path(f"/proc/{self.pid}/exe").readlink()
        except OSError:
            return False

    def settle(self) -> None:
        """Before a command: give the terminal the modes it started with, if a program left others.

        Echo would put typed input into the output, output processing would change its newlines.
        What was typed into an earlier command and not read is not for this one.
        """
        if self._was_typed_into:
            self._was_typed_into = False
            self._forget_typed()
            terminal = os.open(self.terminal, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
            try:
                termios.tcflush(terminal, termios.TCIFLUSH)
            finally:
                os.close(terminal)
        if fcntl.ioctl(self._tty, termios.TCGETS, _NO_MODES) != self._modes:
            fcntl.ioctl(self._tty, termios.TCSETS, self._modes)

    def unread_commands(self) -> int:
        """Bytes written to the channel that bash has not read."""
        if self._channel is None:
            return 0
        buffer = fcntl.ioctl(self._channel, termios.TIOCOUTQ, bytes(4))
        return int(struct.unpack("i", buffer)[0]) + len(self._unsent)

    def _descriptor(self, number: int) -> str | None:
        try:
            return str(Path(f"/proc/{self.pid}/fd/{number}").readlink())
        except OSError:
            return None

    def directory(self) -> str | None:
        try:
            return str(Path(f"/proc/{self.pid}/cwd").readlink())
        except OSError:
            return None

    def environment(self) -> dict[str, str] | None:
        """What the program in bash's place was started with."""
        try:
            data = Path(f"/proc/{self.pid}/environ").read_bytes()
        except OSError:
            return None
        pairs = (item.partition(b"=") for item in data.split(b"\0") if b"=" in item)
        return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}

    def is_other_shell(self) -> bool:
        """After `exec`: an interactive shell, as opposed to a program or script."""
        try:
            argv = Path(f"/proc/{self.pid}/cmdline").read_bytes().split(b"\0")[:-1]
        except OSError:
            return False
        name = os.path.basename(os.fsdecode(argv[0])).lstrip("-") if argv else ""  # noqa: PTH119
        options = [os.fsdecode(word) for word in argv[1:]]
        return name in _SHELLS and all(
            word.startswith("--") or (word.startswith("-") and "c" not in word) for word in options
        )

    def kill(self) -> None:
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Give up the descriptors. The process is the keeper's to end."""
        if self._channel is not None:
            self._loop.remove_reader(self._channel)
            self._loop.remove_writer(self._channel)
            self._channel.close()
            self._channel = None

    def _channel_readable(self) -> None:
        assert self._channel is not None
        try:
            if said := self._channel.recv(_SAID, self._hearing):
                self._on_said(said)
                if self._hearing and self._channel is not None:
                    self._channel.recv(len(said))
                return
        except BlockingIOError:
            return
        except ConnectionResetError:
            self.left_lines_unread = True
        self._loop.remove_reader(self._channel)
        if self.is_alive and Path(f"/proc/{self.pid}").exists():
            self._on_replaced()

    def _channel_writable(self) -> None:
        assert self._channel is not None
        try:
            sent = self._channel.send(self._unsent)
        except BlockingIOError:
            return
        except OSError:
            self.left_lines_unread = True
            sent = len(self._unsent)
        del self._unsent[:sent]
        if not self._unsent:
            self._loop.remove_writer(self._channel)

    def ended(self, status: int) -> None:
        """The keeper says so: deliver what is left, then tell the owner."""
        if not self.is_alive:
            self._ended_at_once = status
            return
        if self._channel is not None:
            self._channel_readable()  # its last word, and whether it had read all of ours
        self.is_alive = False
        self.after_output(lambda: self._on_end(status))


_TYPED_LINE = 4000
_KEPT_TERMINAL = 255
_SIGNALS = {b"\x03": signal.SIGINT, b"\x1a": signal.SIGTSTP, b"\x1c": signal.SIGQUIT}
_KEY_SIGNALS = frozenset(_SIGNALS.values())


@functools.cache
def _find_bash(path: str | None) -> str:
    bash = shutil.which("bash", path=path) or shutil.which("bash")
    if bash is None:
        raise MissingTool("there is no bash on PATH; install it, `apt-get install bash`")
    return bash


def quiet(tty: int) -> bytes:
    """Make the terminal pass bytes unchanged: no echo, no CR before LF, no flow control."""
    modes = termios.tcgetattr(tty)
    modes[0] &= ~(termios.IXON | termios.IXOFF)
    modes[1] &= ~termios.OPOST
    modes[3] &= ~(termios.ECHO | termios.ECHONL)
    termios.tcsetattr(tty, termios.TCSANOW, modes)
    return fcntl.ioctl(tty, termios.TCGETS, _NO_MODES)


def _socket_name(end: socket.socket) -> str:
    """What /proc calls it."""
    return f"socket:[{os.fstat(end.fileno()).st_ino}]"


_NO_MODES = bytes(60)
