"""Client of the keeper, the supervisor process that starts shells and ends all they started.

One keeper serves all shells of a sandbox. See `_keeper_main.py` for what it promises.
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
from pathlib import Path
from typing import Any

from bascule.core.contracts import Closable
from bascule.core.errors import SandboxDied, SandboxStartFailed

_MOST_FDS = 16

GRACE = 0.3
"""Seconds programs have to leave by themselves when their shell is closed."""


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
    """Bytes of it that are kept, the newest."""


@dataclass(frozen=True, slots=True)
class RecoveredKeeper:
    """State that a keeper kept for the next server after its server was killed."""

    held: Mapping[str, tuple[int, ...]]
    """Descriptors by the key they were held under; now the finder's own."""
    statuses: Mapping[int, int | None]
    """Every shell by its pid; None while it lives."""
    lost: int
    """Bytes at the beginning of spools that did not fit."""


class Keeper(Closable):
    """Starts shells in a keeper process; closing it ends every process they started.

    If the keeper process dies, `on_exit` of every shell is called with -9 and further spawns
    raise `SandboxDied`. One that was told to wait (`keep_for` seconds, with a `directory`) does not
    end when its server is killed: the next one to `find` it there has its shells.
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
        self._early: dict[int, int] = {}
        self._unwanted: set[int] = set()
        self._next_id = 0
        self._birth: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """Of the process all its own are below, those too that lost their parent; 0 before it runs
        and for one that was found."""
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
    ) -> int:
        """Start `argv` with `terminal` as its controlling terminal and `channel` as its input.

        Returns its pid; `on_exit` gets its status (negative: the signal) once it has ended.
        Raises `SandboxStartFailed` naming what did not work.
        """
        message = {
            "argv": list(argv),
            "env": dict(env),
            "cwd": cwd,
            "uid": account.uid if account else None,
            "gid": account.gid if account else None,
            "groups": list(account.groups) if account else [],
            "terminal": True,
        }
        return await self._spawn(message, (terminal, channel), on_exit)

    async def launch(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        stdin: int,
        stdout: int,
        on_exit: Callable[[int], None],
    ) -> int:
        """Start a program that has no terminal; else as `spawn`."""
        message = {"argv": list(argv), "env": dict(env), "cwd": cwd, "uid": None, "terminal": False}
        return await self._spawn(message, (stdin, stdout), on_exit)

    async def _spawn(
        self, message: Mapping[str, Any], fds: tuple[int, int], on_exit: Callable[[int], None]
    ) -> int:
        await self._ensure_started()
        assert self._loop is not None
        self._next_id += 1
        spawn_id = self._next_id
        spawned: asyncio.Future[int] = self._loop.create_future()
        self._spawning[spawn_id] = spawned
        self._send({"op": "spawn", "id": spawn_id, **message}, *fds)
        try:
            pid = await spawned
        except asyncio.CancelledError:
            self._unwanted.add(spawn_id)
            raise
        self.watch(pid, on_exit)
        return pid

    def watch(self, pid: int, on_exit: Callable[[int], None]) -> None:
        """Have `on_exit` called with the status of a shell once it has ended."""
        if pid in self._early:
            on_exit(self._early.pop(pid))
        else:
            self._watched[pid] = on_exit

    def hold(self, key: str, *fds: int, spool: Spool | None = None) -> None:
        """Have copies of descriptors kept open for the next server, under `key`."""
        place = spool and {"index": spool.index, "path": str(spool.path), "limit": spool.limit}
        self._send({"op": "hold", "key": key, "spool": place}, *fds)

    def release(self, key: str) -> None:
        if self._link is not None:
            self._send({"op": "release", "key": key})

    async def find(self) -> RecoveredKeeper | None:
        """Take over the keeper that waits in the directory; None if there is none.

        Raises `SandboxStartFailed` when it has a server that lives.
        """
        assert self._directory is not None
        link = socket.socket(socket.AF_UNIX)
        try:
            is_there = await asyncio.to_thread(_knock, link, self._directory / "keeper")
        except BaseException:  # a socket made in that thread would be nobody's after a cancellation
            link.close()
            raise
        if not is_there:
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
        """End the shell `pid` and all it started: asked to leave first, killed after `GRACE`."""
        if self._link is None or self._loop is None:
            return
        ended = self._ending.setdefault(pid, self._loop.create_future())
        self._send({"op": "end", "pid": pid, "grace": GRACE})
        await ended

    async def aclose(self) -> None:
        if self._birth is not None:
            await asyncio.wait([self._birth])
        process, self._process = self._process, None
        if self._keep_for and self._link is not None and self._gone is not None:
            self._send({"op": "leave"})
            await self._gone
        self._lose("the sandbox was closed")
        if process is not None:
            await asyncio.to_thread(process.wait)

    async def _ensure_started(self) -> None:
        """Start the process unless it runs. Being cancelled meanwhile does not stop it half-way."""
        if self._link is None and self._birth is None:
            self._birth = asyncio.get_running_loop().create_task(self._start())
        if self._birth is not None:
            birth = self._birth
            try:
                await asyncio.shield(birth)
            finally:
                if birth.done():
                    self._birth = None

    async def _start(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._process is not None:  # one that was killed
            await asyncio.to_thread(self._process.wait)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        argv = [sys.executable, "-I", "-S", str(Path(__file__).with_name("_keeper_main.py"))]
        argv += [str(theirs.fileno()), *([str(self._directory)] if self._directory else [])]
        if self._keep_for:
            argv.append(str(self._keep_for))
        # Who outlives the server must not keep its output open for those who wait for its end.
        output = subprocess.DEVNULL if self._keep_for else None

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # a Ctrl-C typed at the server is not for the keeper
            )

        # Not a task, which the end of the loop would cancel while the thread goes on.
        starting = self._loop.run_in_executor(None, start)
        try:
            self._process = await asyncio.shield(starting)
        except OSError as error:
            ours.close()
            raise SandboxStartFailed(f"the shell keeper did not start: {error}") from error
        except asyncio.CancelledError:  # the loop ends
            ours.close()  # which ends the keeper as well
            await asyncio.to_thread((await starting).wait)
            raise
        finally:
            theirs.close()
        self._link = ours
        self._gone = self._loop.create_future()
        self._loop.add_reader(ours, self._receive)

    def _send(self, message: Mapping[str, Any], *fds: int) -> None:
        if self._link is None:
            raise SandboxDied("the process that keeps this sandbox's shells has ended")
        body = marshal.dumps(dict(message))
        frame = struct.pack("!I", len(body)) + body
        # Blocking: a frame is small beside the socket's buffer, and the keeper always reads.
        self._link.setblocking(True)
        try:
            sent = socket.send_fds(self._link, [frame], fds) if fds else self._link.send(frame)
            if sent < len(
                frame
            ):  # an empty rest would fail when the keeper has done as it was told
                self._link.sendall(frame[sent:])
        except OSError as error:
            self._lose("it closed its end")
            raise SandboxDied("the process that keeps this sandbox's shells has ended") from error
        finally:
            if self._link is not None:
                self._link.setblocking(False)

    def _receive(self) -> None:
        assert self._link is not None
        try:
            data, descriptors, _, _ = socket.recv_fds(self._link, 65536, _MOST_FDS)
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
            self._descriptors += descriptors
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose("it ended")
            return
        self._inbox += data
        while len(self._inbox) >= 4:
            size = struct.unpack_from("!I", self._inbox)[0]
            if len(self._inbox) < 4 + size:
                return
            message = marshal.loads(self._inbox[4 : 4 + size])  # noqa: S302 - our own child
            del self._inbox[: 4 + size]
            self._handle(message)

    def _handle(self, message: Mapping[str, Any]) -> None:
        match message["op"]:
            case "spawned":
                spawned = self._spawning.pop(message["id"])
                if message["id"] in self._unwanted:
                    self._unwanted.discard(message["id"])
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
                    self._early[message["pid"]] = message["status"]
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
                self._lose("it has another server")

    def _lose(self, why: str) -> None:
        """The keeper is gone, and with it every shell."""
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
            watcher(-9)


def _knock(link: socket.socket, path: Path) -> bool:
    """Blocks: connect to whoever listens there, if anybody does."""
    try:
        link.connect(str(path))
    except (FileNotFoundError, ConnectionRefusedError):
        return False
    link.setblocking(False)
    return True
