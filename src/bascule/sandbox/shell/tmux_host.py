"""The tmux of a sandbox: one server on its own socket, and one control client for all output.

Every shell has its own tmux session with one window; people attach to it by the shell's name. All
windows are also linked into an extra session of the control client, so that it gets all output.

The tmux server and the control client are children of the keeper. They survive with it if this
process is killed. `splice` moves the client's output inside the kernel from its pipe to the file
`stream`, where this process reads it. Every byte is either in the pipe or in the file, so the next
server misses none.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import json
import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bascule.core.contracts import Closable
from bascule.core.errors import InvalidSetting, MissingTool, SandboxDied, SandboxStartFailed

from .keeper import Keeper, RecoveredKeeper, Spool
from .marks import PARKED, new_nonce
from .shared_start import SharedStart
from .tmux_control import ControlReader, PaneOutput, TmuxClientChange, TmuxReply

logger = logging.getLogger(__name__)

OnPaneOutput = Callable[[bytes, int], None]
"""Called with the output of a pane, and the position in the stream after it."""

_CONTROL = "control"
"""Key under which the keeper holds the pipes of the control client."""
_ALL_WINDOWS = "+all"
"""Session of the control client. No shell can have this name."""
_PARK = Path(__file__).with_name("_park_main.py")
_READ_BYTES = 1 << 20
_TRIM_BYTES = 8 << 20
"""Delivered bytes after which the beginning of the stream is freed."""
_MAX_SOCKET_PATH = 100
"""Bytes; Linux limits the path of a socket to 107."""
_KEYS_PER_LINE = 1000
"""Bytes typed with one `send-keys` command."""
_PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01
_MAX_EARLY_OUTPUT = 1 << 16
"""Maximum bytes kept of the output of a pane before it has a listener."""
_GONE = "the tmux of this sandbox has ended; the next command starts another"

_CONFIGURATION = r"""
set -s exit-empty off
set -s escape-time 0
set -g remain-on-exit off
set -g destroy-unattached off
set -g automatic-rename off
set -g allow-rename off
set -g history-limit 10000
set -g window-size latest
set -g status-interval 0
set -g status-style "bg=colour237,fg=colour250"
set -g status-left-length 40
set -g status-left " bascule: #{session_name} "
set -g window-status-format ""
set -g window-status-current-format ""
set -g status-right-length 120
set -g status-right "an agent's shell; keys go to the running program; Ctrl-b d detaches "
"""


@dataclass(slots=True)
class TmuxPane:
    """A tmux pane and the placeholder process in it."""

    id: str
    parked: int
    """PID of the placeholder process; tmux closes the pane when it exits."""
    terminal: str


class TmuxHost(Closable):
    """Starts tmux with the first pane. Closing ends it and everything that runs in its panes."""

    def __init__(self, directory: Path, *, keep_for: float, limit: int, working_dir: Path) -> None:
        self.directory = directory
        self._working_dir = working_dir
        self.socket = directory / "tmux"
        self.keeper = Keeper(directory=directory, keep_for=keep_for)
        self._limit = limit
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = SharedStart(self._start)
        self._in = self._out = self._stream = -1
        self._end = self._trimmed = 0
        self._reader = ControlReader()
        self._unwritten = bytearray()
        self._replies: deque[asyncio.Future[TmuxReply] | None] = deque()
        self._server = -1
        self._listeners: dict[str, OnPaneOutput] = {}
        self._on_gone: dict[str, Callable[[], None]] = {}
        self._early: dict[str, bytes] = {}
        self._opening: dict[str, asyncio.Task[TmuxPane]] = {}
        self._attached_clients: dict[str, str] = {}
        self._attendance_callbacks: dict[str, Callable[[bool], None]] = {}
        self._after_backlog: list[Callable[[], None]] | None = None
        """Callbacks that wait for output from before `resume`; None once all is delivered."""
        self.panes: dict[str, TmuxPane] = {}
        """The panes, by the name of their shell."""

    @property
    def is_running(self) -> bool:
        return self._out >= 0

    @property
    def position(self) -> int:
        """Position in the stream up to which all output has been delivered."""
        return self._reader.position

    # Panes -----------------------------------------------------------------------------------

    async def pane(self, name: str, *, rows: int, columns: int) -> TmuxPane:
        """Return the pane of that name, with a new terminal that waits for a process.

        People who are attached to the pane stay attached; programs lose the old terminal. If this
        call is cancelled, the work continues, and the next call for the same name gets its result.
        """
        opening = self._opening.get(name)
        if opening is None:
            work = self._open_pane(name, rows, columns)
            opening = self._opening[name] = asyncio.get_running_loop().create_task(work)
        try:
            return await asyncio.shield(opening)
        finally:
            if opening.done():
                self._opening.pop(name, None)

    async def close_pane(self, name: str) -> None:
        if (opening := self._opening.pop(name, None)) is not None:
            await asyncio.wait([opening])
        if (pane := self.panes.pop(name, None)) is not None:
            self.leave(pane)
            if self.is_running:  # wait for the reply, so that the name is free afterwards
                with contextlib.suppress(SandboxStartFailed, SandboxDied):  # already closed
                    await self._ask(f"kill-pane -t {pane.id}")
            end_process(pane.parked)

    async def _open_pane(self, name: str, rows: int, columns: int) -> TmuxPane:
        try:
            return await self._ready_pane(name, rows, columns)
        except SandboxDied:  # tmux was killed meanwhile; retry with a new tmux
            return await self._ready_pane(name, rows, columns)

    async def _ready_pane(self, name: str, rows: int, columns: int) -> TmuxPane:
        await self._starting.ensure_started(is_running=self.is_running)
        old = self.panes.get(name)
        if old is not None and not await self._pane_exists(old):
            self.leave(old)  # an attached person has closed the pane
            old = None
        pane = await self._wait_until_parked(
            old.id if old else await self._new_pane(name, rows, columns)
        )
        self.panes[name] = pane
        if old is not None:
            end_process(old.parked)
        return pane

    async def _pane_exists(self, pane: TmuxPane) -> bool:
        return pane.id in await self._ask("list-panes -a -F '#{pane_id}'")

    async def _new_pane(self, name: str, rows: int, columns: int) -> str:
        session = shlex.quote(session_name(name))
        # Our terminals do not add CR to LF, because output has to be exact, so attached people
        # would see a staircase. A pane created without a process ('') treats LF as CR LF, and still
        # does after it gets a process. (Before tmux 3.3 it does not.)
        (first,) = await self._ask(
            f"new-session -d -P -F '#{{pane_id}}' -s {session} -x {columns} -y {rows}"
            " -- sleep infinity"
        )
        (pane,) = await self._ask(f"split-window -d -P -F '#{{pane_id}}' -t {first} ''")
        await self._ask(f"kill-pane -t {first}")
        await self._ask(f"link-window -d -s {pane} -t ={_ALL_WINDOWS}:")
        return pane

    def listen(self, pane: TmuxPane, on_output: OnPaneOutput, on_gone: Callable[[], None]) -> None:
        """Deliver the pane's output from now on; call `on_gone` if tmux ends before the pane."""
        self._listeners[pane.id] = on_output
        self._on_gone[pane.id] = on_gone

    def watch_attendance(self, name: str, on_attended: Callable[[bool], None]) -> None:
        """Call `on_attended` when people attach to the shell or detach; True: some are attached."""
        self._attendance_callbacks[session_name(name)] = on_attended

    def after_backlog(self, callback: Callable[[], None]) -> None:
        """Call `callback` once `resume` has delivered the output that arrived while no server was
        running."""
        if self._after_backlog is None:
            callback()
        else:
            self._after_backlog.append(callback)

    def leave(self, pane: TmuxPane) -> None:
        """Stop delivering the pane's output."""
        self._listeners.pop(pane.id, None)
        self._on_gone.pop(pane.id, None)

    def type(self, pane: TmuxPane, data: bytes) -> None:
        """Type exactly these bytes, even if somebody is scrolling in the pane (copy mode)."""
        lines = [f"copy-mode -q -t {pane.id}"]
        for start in range(0, len(data), _KEYS_PER_LINE):
            keys = data[start : start + _KEYS_PER_LINE].hex(" ")
            lines.append(f"send-keys -t {pane.id} -H {keys}")
        for line in lines:
            self._send_command(line, None)

    # Start, take-over and end ----------------------------------------------------------------

    async def find(self) -> RecoveredKeeper | None:
        """Take over the tmux of a killed server; None if the directory has no running tmux.

        Call `resume` after all panes have their listeners again.
        """
        self._ensure_short()
        found = await self.keeper.find()
        if found is None:
            return None
        if _CONTROL not in found.held:  # the server was killed while tmux was starting
            await self.keeper.aclose()
            return None
        self._in, self._out = found.held[_CONTROL]
        begin = await asyncio.to_thread(self._open_stream)
        self._end = self._trimmed = max(begin, found.lost)
        if found.lost > begin:
            logger.warning(
                "%d bytes of output were dropped while no server was there", found.lost - begin
            )
        self._reader = ControlReader(self._end)
        self._after_backlog = []
        return found

    async def resume(self) -> None:
        """Deliver the output since the previous server stopped reading, then continue normally.

        If tmux has ended meanwhile, the `on_gone` callbacks run as usual.
        """
        with contextlib.suppress(SandboxDied):
            await self._resume()
        waiting, self._after_backlog = self._after_backlog or [], None
        for callback in waiting:
            callback()

    async def _resume(self) -> None:
        self._loop = asyncio.get_running_loop()
        while data := await asyncio.to_thread(os.pread, self._stream, _READ_BYTES, self._end):
            self._end += len(data)
            # Unmerged, because each pane skips positions that it has handled before.
            self._handle_output(data, merge=False)
        # Skip replies to commands of the previous server: read until the reply with our nonce.
        nonce = new_nonce()
        synced: asyncio.Future[TmuxReply] = self._loop.create_future()
        self._replies.append(synced)
        self._write(f"display-message -p {nonce}\n")
        self._loop.add_reader(self._out, self._readable)
        while nonce not in (await synced).lines:
            synced = self._loop.create_future()
            self._replies.append(synced)
        (pid,) = await self._ask("display-message -p '#{pid}'")
        self._server = int(pid)
        for line in await self._ask("list-clients -F '#{client_session} #{client_name}'"):
            session, _, client = line.partition(" ")
            self._client_changed(TmuxClientChange(client, session))

    async def aclose(self) -> None:
        if under_way := [*self._opening.values(), *filter(None, [self._starting.task])]:
            await asyncio.wait(under_way)
        # Closing the keeper kills all its descendants, including tmux.
        self._stop()
        await self.keeper.aclose()

    async def _start(self) -> None:
        self._loop = asyncio.get_running_loop()
        tmux = await asyncio.to_thread(self._prepare)
        self._end = self._trimmed = 0
        self._reader = ControlReader()
        tmux_stdin, to_tmux = os.pipe()
        from_tmux, tmux_stdout = os.pipe()
        try:
            await self.keeper.launch(
                [*tmux, "-C", "new-session", "-s", _ALL_WINDOWS, "--", "sleep", "infinity"],
                env=_environment(),
                cwd="/",
                stdin=tmux_stdin,
                stdout=tmux_stdout,
                on_exit=lambda _: None,  # the end of its output is handled in `_readable`
            )
        except BaseException:
            os.close(to_tmux)
            os.close(from_tmux)
            raise
        finally:
            os.close(tmux_stdin)
            os.close(tmux_stdout)
        for end in (to_tmux, from_tmux):
            os.set_blocking(end, False)
        # If we read too slowly, tmux buffers the output of panes and becomes slower and slower.
        with contextlib.suppress(OSError):  # the user's limit for pipe memory is reached
            fcntl.fcntl(from_tmux, fcntl.F_SETPIPE_SZ, _READ_BYTES)
        self._in, self._out = to_tmux, from_tmux
        self.keeper.hold(
            _CONTROL, self._in, self._out, spool=Spool(1, self._stream_path, self._limit)
        )
        self._loop.add_reader(self._out, self._readable)
        (pid,) = await self._ask("display-message -p '#{pid}'")
        self._server = int(pid)

    def _prepare(self) -> list[str]:
        """Prepare the directory, end an old tmux in it, and return the start command of tmux.

        Blocks the calling thread.
        """
        tmux = find_tmux()
        self._ensure_short()
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.socket.exists():  # left by a tmux whose keeper was killed
            subprocess.run(
                [tmux, "-S", self.socket, "kill-server"], check=False, capture_output=True
            )
        configuration = self.directory / "tmux.conf"
        configuration.write_text(_CONFIGURATION)
        (self.directory / "workspace").write_text(f"{self._working_dir}\n")
        self._stream_path.unlink(missing_ok=True)
        self._position_path.unlink(missing_ok=True)
        self._open_stream()
        return [tmux, "-S", str(self.socket), "-f", str(configuration)]

    def _ensure_short(self) -> None:
        if len(os.fsencode(self.socket)) > _MAX_SOCKET_PATH:
            raise InvalidSetting(
                f"{self.directory} is too long a name for the sockets of tmux shells; choose a "
                f"directory of at most {_MAX_SOCKET_PATH - len('/keeper')} bytes"
            )

    async def _wait_until_parked(self, pane: str) -> TmuxPane:
        parked: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        received = self._early.pop(pane, b"")

        def on_output(data: bytes, _: int) -> None:
            nonlocal received
            received += data
            if received.endswith(PARKED) and not parked.done():
                parked.set_result(True)

        def on_gone() -> None:
            if not parked.done():
                parked.set_result(False)

        self._listeners[pane], self._on_gone[pane] = on_output, on_gone
        program = shlex.join([sys.executable, "-I", "-S", str(_PARK), PARKED.decode()])
        await self._ask(f"respawn-pane -k -t {pane} -- {program}")
        (facts,) = await self._ask(f"display-message -p -t {pane} '#{{pane_pid}} #{{pane_tty}}'")
        if not await parked:
            raise SandboxDied(_GONE)
        pid, _, terminal = facts.partition(" ")
        return TmuxPane(pane, int(pid), terminal)

    # The control client ----------------------------------------------------------------------

    async def _ask(self, command: str) -> tuple[str, ...]:
        """Send a command to tmux and return its reply. Raises `SandboxStartFailed` on an error."""
        assert self._loop is not None
        answered: asyncio.Future[TmuxReply] = self._loop.create_future()
        self._send_command(command, answered)
        reply = await answered
        if reply.is_error:
            raise SandboxStartFailed(f"tmux: {' '.join(reply.lines)} ({command.split()[0]})")
        return reply.lines

    def _send_command(self, command: str, answered: asyncio.Future[TmuxReply] | None) -> None:
        if self._in < 0:
            raise SandboxDied(_GONE)
        self._replies.append(answered)
        self._write(command + "\n")

    def _write(self, text: str) -> None:
        self._unwritten += text.encode()
        self._writable()

    def _writable(self) -> None:
        assert self._loop is not None
        self._loop.remove_writer(self._in)
        while self._unwritten:
            try:
                sent = os.write(self._in, self._unwritten)
            except BlockingIOError:
                self._loop.add_writer(self._in, self._writable)
                return
            except OSError:
                sent = len(self._unwritten)  # tmux has ended; `_readable` sees end of file
            del self._unwritten[:sent]

    def _readable(self) -> None:
        try:
            moved = os.splice(self._out, self._stream, _READ_BYTES, offset_dst=self._end)
        except BlockingIOError:
            return
        if not moved:
            self._stop()
            return
        data = os.pread(self._stream, moved, self._end)
        self._end += moved
        self._handle_output(data)
        if self.position - self._trimmed > _TRIM_BYTES:
            self._trim()

    def _handle_output(self, data: bytes, *, merge: bool = True) -> None:
        for event in self._reader.feed(data, merge=merge):
            if isinstance(event, PaneOutput):
                self._pass_on(event)
            elif isinstance(event, TmuxClientChange):
                self._client_changed(event)
            elif self._replies:
                answered = self._replies.popleft()
                if answered is not None and not answered.done():
                    answered.set_result(event)
                elif event.is_error:
                    logger.warning("tmux: %s", " ".join(event.lines))

    def _pass_on(self, output: PaneOutput) -> None:
        listener = self._listeners.get(output.pane)
        if listener is not None:
            listener(output.data, output.end)
        else:
            early = self._early.get(output.pane, b"") + output.data
            self._early[output.pane] = early[-_MAX_EARLY_OUTPUT:]

    def _client_changed(self, change: TmuxClientChange) -> None:
        before = self._attached_clients.pop(change.client, None)
        if change.session is not None:
            self._attached_clients[change.client] = change.session
        for session in {before, change.session} - {None}:
            if (on_attended := self._attendance_callbacks.get(session or "")) is not None:
                on_attended(session in self._attached_clients.values())

    def _stop(self) -> None:
        """Release everything, because tmux has ended or the host is closing."""
        if self._out < 0 or self._loop is None:
            return
        self._loop.remove_reader(self._out)
        self._loop.remove_writer(self._in)
        for descriptor in (self._in, self._out, self._stream):
            os.close(descriptor)
        self._in = self._out = self._stream = -1
        self._unwritten.clear()
        self._listeners.clear()
        self._early.clear()
        self._attached_clients.clear()
        self._attendance_callbacks.clear()
        for pane in self.panes.values():
            end_process(pane.parked)
        self.panes.clear()
        if self._server > 0:
            end_process(self._server)  # a keeper that was killed has not ended tmux
            self._server = -1
        callbacks, self._on_gone = self._on_gone, {}
        replies, self._replies = self._replies, deque()
        for answered in replies:
            if answered is not None and not answered.done():
                answered.set_exception(SandboxDied(_GONE))
        for on_gone in callbacks.values():
            on_gone()

    # The stream ------------------------------------------------------------------------------

    @property
    def _stream_path(self) -> Path:
        return self.directory / "stream"

    @property
    def _position_path(self) -> Path:
        return self.directory / "position"

    def _open_stream(self) -> int:
        """Open the stream and return the saved position. All data before it has been handled.

        Blocks the calling thread.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._stream = os.open(self._stream_path, flags, 0o600)
        with contextlib.suppress(OSError, ValueError):
            return int(json.loads(self._position_path.read_text()))
        return 0

    def _trim(self) -> None:
        """Free the part of the stream that has been delivered, and save the position.

        Output after this position may have been handled too; each pane knows up to which position.
        """
        position = self.position
        file = os.open(self._position_path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(file, f"{position:<20}".encode(), 0)
        finally:
            os.close(file)
        _fallocate(self._stream, _PUNCH_HOLE_KEEP_SIZE, ctypes.c_int64(0), ctypes.c_int64(position))
        self._trimmed = position


def session_name(shell: str) -> str:
    """Return the tmux session of a shell. tmux allows no dot in names; shell names have no plus."""
    return shell.replace(".", "+")


def find_tmux() -> str:
    tmux = shutil.which("tmux")
    if tmux is None:
        raise MissingTool(
            "there is no tmux on PATH, which tmux shells need; install it, `apt-get install tmux`"
        )
    return tmux


def end_process(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _environment() -> Mapping[str, str]:
    """Return the environment of tmux itself. Bash gets the environment of its shell instead."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "USER") if name in os.environ}
    return {**kept, "LC_ALL": "C.UTF-8", "TERM": "screen-256color", "SHELL": "/bin/sh"}


_fallocate = ctypes.CDLL(None, use_errno=True).fallocate64
