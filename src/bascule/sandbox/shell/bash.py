"""One bash process: its command channel, signals to it, and its state in /proc.

Subclasses differ in the owner of the terminal's master side: `PtyBash` itself, or tmux for
`TmuxBash`.
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

from bascule.core.errors import MissingTool, SandboxStartFailed
from bascule.sandbox import process_table

from .keeper import Keeper
from .marks import HIDDEN_PROMPT, init_line
from .settings import ShellSettings

_MAX_MESSAGE_BYTES = 8192
_SHELL_PROGRAMS = frozenset({"bash", "sh", "dash", "zsh", "fish", "ksh", "busybox"})


class BashProcess(ABC):
    """Bash with a command channel as its input and a terminal for everything it runs.

    Callbacks, called on the event loop that created the object:
    - `on_output`: terminal output
    - `on_message`: data that bash writes to the channel
    - `on_end`: the exit status (negative: a signal), once, after the last output
    - `on_replaced`: `exec` replaced bash by another program
    """

    _receive_flags = 0
    """Flags of `recv` on the channel. With MSG_PEEK, data stays in the channel until handled."""

    def __init__(
        self,
        *,
        on_output: Callable[[bytes], None],
        on_message: Callable[[bytes], None],
        on_end: Callable[[int], None],
        on_replaced: Callable[[], None],
    ) -> None:
        self._on_output = on_output
        self._on_message = on_message
        self._on_end = on_end
        self._on_replaced = on_replaced
        self._loop = asyncio.get_running_loop()
        self._tty = -1
        """A descriptor of the terminal, of either side, to get and set its modes."""
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
        """Bash ended before it had read all command lines."""
        self._ended_at_once: int | None = None

    @abstractmethod
    async def start(self, keeper: Keeper, *, cwd: str, env: Mapping[str, str]) -> None: ...

    @abstractmethod
    def foreground(self) -> int:
        """Return the foreground process group. It is bash's own group if bash runs a builtin or
        nothing."""

    @abstractmethod
    def drain(self) -> None:
        """Deliver all output that is available without waiting."""

    @abstractmethod
    def after_output(self, callback: Callable[[], None]) -> None:
        """Call `callback` once all output printed so far has been delivered."""

    @abstractmethod
    def _write(self, data: bytes) -> None:
        """Type exactly these bytes into the terminal."""

    @abstractmethod
    def _forget_typed(self) -> None:
        """Drop input that has not been written to the terminal yet."""

    async def _spawn(
        self,
        keeper: Keeper,
        *,
        terminal: int,
        cwd: str,
        env: Mapping[str, str],
        settings: ShellSettings,
    ) -> None:
        """Start bash on `terminal` and read its channel. The caller closes `terminal`."""
        bash = _find_bash(env.get("PATH"))
        our_end, bash_end = socket.socketpair()
        our_end.setblocking(False)
        self._channel, self._channel_name = our_end, _socket_name(bash_end)
        try:
            self.pid = await keeper.spawn(
                [bash, "--norc", "--noprofile", "--noediting", "-i"],
                env={**env, "PS1": HIDDEN_PROMPT},
                cwd=cwd,
                terminal=terminal,
                channel=bash_end.fileno(),
                account=settings.account,
                on_exit=self.ended,
            )
        finally:
            bash_end.close()
        if self._ended_at_once is not None:
            raise SandboxStartFailed(f"{bash} ended at once, with status {self._ended_at_once}")
        self.is_alive = True
        self._loop.add_reader(our_end, self._channel_readable)
        self.send_lines(
            init_line(terminal=self.terminal, load_rc=settings.load_rc, aliases=settings.aliases)
        )

    def send_lines(self, lines: bytes) -> None:
        """Write command lines to the channel. If the channel is full, the rest is written later."""
        if self._channel is None:
            return
        if not self._unsent:
            try:
                sent = self._channel.send(lines)
            except BlockingIOError:
                sent = 0
            except OSError:
                self.left_lines_unread = True
                return  # bash has exited; the keeper reports its end
            if sent == len(lines):
                return
            lines = lines[sent:]
            self._loop.add_writer(self._channel, self._channel_writable)
        self._unsent += lines

    def type(self, data: bytes) -> None:
        """Type into the program that reads the terminal.

        In canonical mode a terminal buffers at most 4,095 bytes of a line. A longer line is sent in
        pieces, each followed by the end-of-file key. After text this key only flushes the buffer,
        so the reader gets the same bytes.
        """
        try:
            modes = termios.tcgetattr(self._tty)
        except termios.error:
            return  # tmux closed the terminal
        if modes[_LOCAL_FLAGS] & termios.ICANON and len(data) > _MAX_TYPED_LINE:
            end_of_file_key = modes[_CONTROL_KEYS][termios.VEOF]
            data = b"\n".join(
                end_of_file_key.join(_pieces(line, _MAX_TYPED_LINE)) for line in data.split(b"\n")
            )
        self._was_typed_into = True
        self._write(data)

    def press(self, key: str) -> int | None:
        """Press a control key such as `C-c`. If the key means a signal, send the signal directly,
        because the terminal would discard pending output.

        Return None if the key has certainly arrived. Otherwise the signal may be lost: it reached
        only bash, a child before its exec, or a program that had just ended. Then return the
        process group that got the signal and must not get it again. If another group replaces it in
        the foreground, the signal was lost.
        """
        byte = bytes([ord(key[-1].upper()) & 0x1F])
        number = _SIGNALS_BY_KEY.get(byte)
        group = self.foreground()
        is_early = group == self.pid or self.is_starting_program()
        # The signal ends a program without a handler, and then bash ends the whole command.
        is_handled = number is not None and process_table.handles_signal(group, number)
        if number is None or not (self.signal_foreground(number) or _has_ended(group)):
            self.type(byte)
            return None
        if is_early:
            return self.pid
        return None if is_handled else group

    def signal_foreground(self, number: int) -> bool:
        """Signal the foreground process group; False if the key has to be typed instead."""
        if number in _KEY_SIGNALS and not self._keys_send_signals():
            return False  # ISIG is off: the program wants to read the key as a byte
        group = self.foreground()
        if group <= 0:
            return False
        try:
            os.killpg(group, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _keys_send_signals(self) -> bool:
        """Whether the terminal turns keys such as Ctrl-C into signals."""
        try:
            return bool(termios.tcgetattr(self._tty)[_LOCAL_FLAGS] & termios.ISIG)
        except termios.error:
            return True  # tmux closed the terminal

    def is_in_command(self) -> bool:
        """Whether bash runs a command. During a command, bash's stdin is the terminal, not the
        channel."""
        return process_table.descriptor(self.pid, 0) != self._channel_name

    def has_terminal(self) -> bool:
        """Whether bash still has its own descriptor of the terminal, the stdin of every command."""
        return process_table.descriptor(self.pid, _BASH_TERMINAL_FD) == self.terminal

    def is_starting_program(self) -> bool:
        """Whether the foreground process is a fork of bash that has not called exec yet. A subshell
        looks the same."""
        group = self.foreground()
        if group in (-1, self.pid):
            return False
        program = process_table.program(group)
        return program is not None and program == process_table.program(self.pid)

    def settle(self) -> None:
        """Prepare the terminal for the next command: reset its modes and drop unread input.

        An earlier program may have turned on echo, which adds typed input to the output, or output
        processing, which changes newlines. Input that this program did not read must not reach the
        next program.
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

    def directory(self) -> str | None:
        return process_table.directory(self.pid)

    def environment(self) -> dict[str, str]:
        """Return the environment with which the process was started; empty if it has ended."""
        pairs = (item.partition(b"=") for item in process_table.environment(self.pid))
        return {os.fsdecode(name): os.fsdecode(value) for name, equals, value in pairs if equals}

    def has_arguments(self) -> bool:
        """Whether /proc shows a command line. /proc shows none while `exec` loads a program: exec
        closes the channel first, and on a busy machine loading the program takes a while."""
        return bool(process_table.arguments(self.pid))

    def is_other_shell(self) -> bool:
        """After `exec`: whether the new program is an interactive shell, not a script."""
        argv = process_table.arguments(self.pid)
        name = os.path.basename(os.fsdecode(argv[0])).lstrip("-") if argv else ""  # noqa: PTH119
        options = [os.fsdecode(argument) for argument in argv[1:]]
        return name in _SHELL_PROGRAMS and all(
            option.startswith("--") or (option.startswith("-") and "c" not in option)
            for option in options
        )

    def kill(self) -> None:
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close the descriptors. The keeper ends the process."""
        if self._channel is not None:
            self._loop.remove_reader(self._channel)
            self._loop.remove_writer(self._channel)
            self._channel.close()
            self._channel = None

    def _channel_readable(self) -> None:
        assert self._channel is not None
        try:
            if data := self._channel.recv(_MAX_MESSAGE_BYTES, self._receive_flags):
                self._on_message(data)
                if self._receive_flags and self._channel is not None:
                    self._channel.recv(len(data))
                return
        except BlockingIOError:
            return
        except ConnectionResetError:
            self.left_lines_unread = True
        self._loop.remove_reader(self._channel)
        if self.is_alive and process_table.exists(self.pid):
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
        """Called by the keeper at bash's exit: deliver the remaining output, then call `on_end`."""
        if not self.is_alive:
            self._ended_at_once = status
            return
        if self._channel is not None:
            self._channel_readable()  # bash's last report, and whether it has read all our lines
        self.is_alive = False
        self.after_output(lambda: self._on_end(status))


_LOCAL_FLAGS, _CONTROL_KEYS = 3, 6
"""Indexes in the list of `termios.tcgetattr`."""
_MAX_TYPED_LINE = 4000
"""Maximum bytes of a line typed at once; a terminal buffers at most 4,095."""
_BASH_TERMINAL_FD = 255
"""Descriptor at which interactive bash keeps its terminal."""
_SIGNALS_BY_KEY = {b"\x03": signal.SIGINT, b"\x1a": signal.SIGTSTP, b"\x1c": signal.SIGQUIT}
_KEY_SIGNALS = frozenset(_SIGNALS_BY_KEY.values())


@functools.cache
def _find_bash(path: str | None) -> str:
    bash = shutil.which("bash", path=path) or shutil.which("bash")
    if bash is None:
        raise MissingTool("there is no bash on PATH; install it, `apt-get install bash`")
    return bash


def quiet(tty: int) -> bytes:
    """Make the terminal pass bytes unchanged: no echo, no CR before LF, no flow control."""
    input_flags, output_flags, control_flags, local_flags, *rest = termios.tcgetattr(tty)
    input_flags &= ~(termios.IXON | termios.IXOFF)
    output_flags &= ~termios.OPOST
    local_flags &= ~(termios.ECHO | termios.ECHONL)
    modes = [input_flags, output_flags, control_flags, local_flags, *rest]
    termios.tcsetattr(tty, termios.TCSANOW, modes)
    return fcntl.ioctl(tty, termios.TCGETS, _NO_MODES)


def _pieces(line: bytes, size: int) -> list[bytes]:
    """Split a line into pieces of `size` bytes; an empty line is one empty piece."""
    return [line[start : start + size] for start in range(0, len(line) or 1, size)]


def _has_ended(group: int) -> bool:
    """Whether bash has waited for all processes of the group. The group stays in the foreground
    for a moment after that."""
    if group <= 0:
        return False
    try:
        os.killpg(group, 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    return False


def _socket_name(end: socket.socket) -> str:
    """Return the name of the socket in /proc."""
    return f"socket:[{os.fstat(end.fileno()).st_ino}]"


_NO_MODES = bytes(60)
"""Buffer that receives the terminal modes from TCGETS."""
