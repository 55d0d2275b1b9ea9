"""Client of the keeper, the supervisor process that starts shells and ends all their processes.

One keeper serves all shells of a sandbox. `_keeper_main.py` documents its protocol and guarantees.
"""

from __future__ import annotations

import asyncio
import marshal
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bascule.core.contracts import Closable
from bascule.core.errors import SandboxDied, SandboxStartFailed

from .shared_start import SharedStart

_MAX_FDS = 16
"""Maximum number of descriptors received at once."""
_LENGTH_BYTES = 4
"""Size of the length before each message."""
_KILLED_STATUS = -9
"""Exit status of a shell killed by SIGKILL, reported when the keeper dies."""

_MAIN = Path(__file__).with_name("_keeper_main.py")
_BOOT = """
import marshal, os, sys
code = marshal.loads(sys.stdin.buffer.read())
os.close(0)
os.open(os.devnull, os.O_RDONLY)  # gets descriptor 0
del sys.argv[0]
exec(code)
"""
"""Script that runs the bytecode of `compiled_keeper` from stdin. Python does not cache the bytecode
of a script, and compiling `_keeper_main.py` takes a tenth of the CPU time that a keeper needs to
start."""

GRACE = 0.3
"""Seconds that programs have to exit after SIGTERM when their shell is closed."""


@cache
def compiled_keeper() -> bytes:
    """The bytecode of the keeper's program, for `_BOOT`. The first call compiles the program. A
    zygote calls this function before it forks, so that its children need not compile."""
    return marshal.dumps(compile(_MAIN.read_bytes(), _MAIN, "exec", dont_inherit=True))


@dataclass(frozen=True, slots=True)
class ShellAccount:
    """The user a shell runs as, if it is not the server's own user."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str


@dataclass(frozen=True, slots=True)
class Spool:
    """A file that stores the output of a held pipe while no server reads it."""

    index: int
    """Which of the held descriptors is the pipe."""
    path: Path
    limit: int
    """Maximum size in bytes; the oldest output is dropped."""


@dataclass(frozen=True, slots=True)
class RecoveredKeeper:
    """State that a keeper has kept since its server was killed, for the next server."""

    held: Mapping[str, tuple[int, ...]]
    """Descriptors by key; the caller of `find` now owns them."""
    statuses: Mapping[int, int | None]
    """Exit status of every shell by its pid; None while it runs."""
    lost: int
    """Bytes dropped at the beginning of spools."""


class Keeper(Closable):
    """Starts shells in a keeper process. Closing ends every process that the shells started.

    If the keeper process dies, `on_exit` of every shell is called with -9, and spawns in progress
    raise `SandboxDied`. With `directory` and `keep_for`, the keeper process survives for `keep_for`
    seconds if its server is killed. The next server calls `find` and takes over the shells.
    """

    def __init__(self, *, directory: Path | None = None, keep_for: float = 0.0) -> None:
        self._directory = directory
        self._keep_for = keep_for
        self._found: asyncio.Future[RecoveredKeeper] | None = None
        self._held: dict[str, tuple[int, ...]] = {}
        self._descriptors: list[int] = []
        self._gone: asyncio.Future[None] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._inbox = bytearray()
        self._spawning: dict[int, asyncio.Future[int]] = {}
        self._ending: dict[int, asyncio.Future[None]] = {}
        self._watched: dict[int, Callable[[int], None]] = {}
        self._early_statuses: dict[int, int] = {}
        self._cancelled_spawns: set[int] = set()
        self._next_id = 0
        self._starting = SharedStart(self._start)

    @property
    def pid(self) -> int:
        """PID of the keeper process, the ancestor of all processes of the shells, also of orphans.
        0 before the keeper starts, and for a keeper taken over by `find`."""
        return 0 if self._process is None else self._process.pid

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        terminal: int,
        channel: int,
        account: ShellAccount | None,
        on_exit: Callable[[int], None],
        adopts_orphans: bool = True,
    ) -> int:
        """Start `argv` with `terminal` as its controlling terminal and `channel` as its input.

        With `adopts_orphans`, `end` also ends the detached descendants of the process, which has to
        reap them, as a shell does. Without it, `end` sends SIGTERM to the process itself too.

        Returns the pid of the new process. Calls `on_exit` with the exit status once the process
        has ended; a negative status is the signal that killed it. Raises `SandboxStartFailed` with
        the step that failed.
        """
        message = _start_message(argv, env, cwd, account=account, adopts=adopts_orphans)
        return await self._spawn({**message, "terminal": True}, (terminal, channel), on_exit)

    async def launch(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        stdin: int,
        stdout: int,
        stderr: int | None = None,
        account: ShellAccount | None = None,
        on_exit: Callable[[int], None],
        adopts_orphans: bool = True,
    ) -> int:
        """Like `spawn`, for a program without terminal. Without `stderr`, the program has that of
        the keeper."""
        message = _start_message(argv, env, cwd, account=account, adopts=adopts_orphans)
        fds = (stdin, stdout) if stderr is None else (stdin, stdout, stderr)
        return await self._spawn({**message, "terminal": False}, fds, on_exit)

    async def _spawn(
        self, message: Mapping[str, Any], fds: tuple[int, ...], on_exit: Callable[[int], None]
    ) -> int:
        await self._starting.ensure_started(is_running=self._link is not None)
        assert self._loop is not None
        self._next_id += 1
        spawn_id = self._next_id
        spawned: asyncio.Future[int] = self._loop.create_future()
        self._spawning[spawn_id] = spawned
        self._send({"op": "spawn", "id": spawn_id, **message}, *fds)
        try:
            pid = await spawned
        except asyncio.CancelledError:
            self._cancelled_spawns.add(spawn_id)
            raise
        self.watch(pid, on_exit)
        return pid

    def watch(self, pid: int, on_exit: Callable[[int], None]) -> None:
        """Call `on_exit` with the exit status once the shell has ended."""
        if pid in self._early_statuses:
            on_exit(self._early_statuses.pop(pid))
        else:
            self._watched[pid] = on_exit

    def hold(self, key: str, *fds: int, spool: Spool | None = None) -> None:
        """Let the keeper hold copies of descriptors for the next server, under `key`."""
        fields = spool and {"index": spool.index, "path": str(spool.path), "limit": spool.limit}
        self._send({"op": "hold", "key": key, "spool": fields}, *fds)

    def release(self, key: str) -> None:
        if self._link is not None:
            self._send({"op": "release", "key": key})

    async def find(self) -> RecoveredKeeper | None:
        """Take over the keeper that waits in the directory; None if no keeper waits there.

        Raises `SandboxStartFailed` if another server is connected to the keeper.
        """
        assert self._directory is not None
        link = socket.socket(socket.AF_UNIX)
        try:
            is_waiting = await asyncio.to_thread(
                _connect_to_waiting, link, self._directory / "keeper"
            )
        except BaseException:  # the socket is created outside the thread so that we can close it
            link.close()
            raise
        if not is_waiting:
            link.close()
            return None
        self._loop = asyncio.get_running_loop()
        found: asyncio.Future[RecoveredKeeper] = self._loop.create_future()
        self._found = found
        self._gone = self._loop.create_future()
        self._link = link
        self._loop.add_reader(link, self._receive)
        return await found

    async def end(self, pid: int) -> None:
        """End the shell `pid` and all its processes: SIGTERM first, SIGKILL after `GRACE`."""
        if self._link is None or self._loop is None:
            return
        ended = self._ending.setdefault(pid, self._loop.create_future())
        self._send({"op": "end", "pid": pid, "grace": GRACE})
        # Other callers wait for the same future; a cancelled caller must not cancel it.
        await asyncio.shield(ended)

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to the process group that the shell or program `pid` leads."""
        if self._link is not None:
            self._send({"op": "signal", "pid": pid, "number": int(number)})

    def hang_up(self, pid: int) -> None:
        """Kill the shell `pid`, whose terminal is gone, and send SIGHUP to its programs.

        The keeper sends SIGHUP by itself if the shell was ended by SIGHUP.
        """
        if self._link is not None:
            self._send({"op": "hang_up", "pid": pid})

    async def aclose(self) -> None:
        if self._starting.task is not None:
            await asyncio.wait([self._starting.task])
        process, self._process = self._process, None
        if self._keep_for and self._link is not None and self._gone is not None:
            self._send({"op": "leave"})
            await self._gone
        self._handle_keeper_end("the sandbox was closed")
        if process is not None:
            await asyncio.to_thread(process.wait)

    async def _start(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._process is not None:  # the previous keeper process, which was killed
            await asyncio.to_thread(self._process.wait)
        server_end, keeper_end = socket.socketpair()
        server_end.setblocking(False)
        # With -c, `_MAIN` is not executed. The spawner `plain` recognizes a keeper by this name.
        argv = [sys.executable, "-I", "-S", "-c", _BOOT, str(_MAIN)]
        argv += [str(keeper_end.fileno()), *([str(self._directory)] if self._directory else [])]
        if self._keep_for:
            argv.append(str(self._keep_for))
        # A keeper that outlives the server must not hold the server's stdout and stderr open:
        # programs that read them would wait for end of file.
        output = subprocess.DEVNULL if self._keep_for else None

        def start() -> subprocess.Popen[bytes]:
            with os.fdopen(os.memfd_create("keeper"), "w+b") as program:
                program.write(compiled_keeper())
                program.seek(0)
                return subprocess.Popen(
                    argv,
                    stdin=program,
                    stdout=output,
                    stderr=output,
                    pass_fds=(keeper_end.fileno(),),
                    start_new_session=True,  # so Ctrl-C in the server's terminal does not end it
                )

        # Not a task: at the end of the loop a task is cancelled while its thread continues.
        starting = self._loop.run_in_executor(None, start)
        try:
            self._process = await asyncio.shield(starting)
        except OSError as error:
            server_end.close()
            raise SandboxStartFailed(f"the shell keeper did not start: {error}") from error
        except asyncio.CancelledError:  # the event loop is ending
            server_end.close()  # ends the keeper as well
            await asyncio.to_thread((await starting).wait)
            raise
        finally:
            keeper_end.close()
        self._link = server_end
        self._gone = self._loop.create_future()
        self._loop.add_reader(server_end, self._receive)

    def _send(self, message: Mapping[str, Any], *fds: int) -> None:
        if self._link is None:
            raise SandboxDied("the process that keeps this sandbox's shells has ended")
        body = marshal.dumps(dict(message))
        frame = struct.pack("!I", len(body)) + body
        # Blocking is safe: the keeper always reads, and frames are small, except for the words of
        # some programs, which have at most 1.5 MiB.
        self._link.setblocking(True)
        try:
            sent = socket.send_fds(self._link, [frame], fds) if fds else self._link.send(frame)
            # After `leave` the keeper may have exited, so even sending b"" would fail.
            if sent < len(frame):
                self._link.sendall(frame[sent:])
        except OSError as error:
            self._handle_keeper_end("it closed its end")
            raise SandboxDied("the process that keeps this sandbox's shells has ended") from error
        finally:
            if self._link is not None:
                self._link.setblocking(False)

    def _receive(self) -> None:
        assert self._link is not None
        try:
            data, descriptors, _, _ = socket.recv_fds(self._link, 65536, _MAX_FDS)
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
            self._descriptors += descriptors
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._handle_keeper_end("it ended")
            return
        self._inbox += data
        while len(self._inbox) >= _LENGTH_BYTES:
            end = _LENGTH_BYTES + struct.unpack_from("!I", self._inbox)[0]
            if len(self._inbox) < end:
                return
            message = marshal.loads(self._inbox[_LENGTH_BYTES:end])  # noqa: S302 - our own child
            del self._inbox[:end]
            self._handle(message)

    def _handle(self, message: Mapping[str, Any]) -> None:
        match message["op"]:
            case "spawned":
                spawned = self._spawning.pop(message["id"])
                if message["id"] in self._cancelled_spawns:
                    self._cancelled_spawns.discard(message["id"])
                    self._send({"op": "end", "pid": message["pid"], "grace": 0})
                elif not spawned.done():
                    spawned.set_result(message["pid"])
            case "failed":
                failed = self._spawning.pop(message["id"])
                if not failed.done():
                    failed.set_exception(
                        SandboxStartFailed(
                            f"the shell did not start ({message['where']}): {message['error']}",
                            where=message["where"],
                        )
                    )
            case "exited":
                watcher = self._watched.pop(message["pid"], None)
                if watcher is not None:
                    watcher(message["status"])
                else:
                    self._early_statuses[message["pid"]] = message["status"]
            case "ended":
                ended = self._ending.pop(message["pid"], None)
                if ended is not None and not ended.done():
                    ended.set_result(None)
            case "held":
                count = message["fds"]
                self._held[message["key"]] = tuple(self._descriptors[:count])
                del self._descriptors[:count]
            case "found" if self._found is not None:
                held, self._held = self._held, {}
                self._found.set_result(
                    RecoveredKeeper(held, dict(message["statuses"]), message["lost"])
                )
            case "busy" if self._found is not None:
                self._found.set_exception(
                    SandboxStartFailed(
                        f"another server is using the shells in {self._directory}; "
                        "stop it first, or choose another directory"
                    )
                )
                self._handle_keeper_end("it has another server")

    def _handle_keeper_end(self, why: str) -> None:
        """Handle the end of the keeper and of all its shells: complete every pending call."""
        if self._link is not None and self._loop is not None:
            self._loop.remove_reader(self._link)
            self._link.close()
        self._link = None
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)
        if self._found is not None and not self._found.done():
            self._found.set_exception(SandboxStartFailed(f"the shell keeper is gone: {why}"))
        for spawning in self._spawning.values():
            if not spawning.done():
                spawning.set_exception(SandboxDied(f"the shell keeper is gone: {why}"))
        for ending in self._ending.values():
            if not ending.done():
                ending.set_result(None)
        watchers = list(self._watched.values())
        self._spawning.clear()
        self._ending.clear()
        self._watched.clear()
        for watcher in watchers:
            watcher(_KILLED_STATUS)


def _start_message(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    *,
    account: ShellAccount | None,
    adopts: bool,
) -> dict[str, Any]:
    return {
        "argv": list(argv),
        "env": dict(env),
        "cwd": cwd,
        "uid": account.uid if account else None,
        "gid": account.gid if account else None,
        "groups": list(account.groups) if account else [],
        "adopts": adopts,
    }


def _connect_to_waiting(link: socket.socket, path: Path) -> bool:
    """Connect to a waiting keeper; False if no keeper waits. Blocks the calling thread."""
    try:
        link.connect(str(path))
    except (FileNotFoundError, ConnectionRefusedError):
        return False
    link.setblocking(False)
    return True
