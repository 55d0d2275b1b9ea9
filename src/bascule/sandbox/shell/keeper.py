"""Our end of the keeper: the process that starts shells and ends all they started.

One keeper serves all shells of a sandbox. See `_keeper_main.py` for what it promises.
"""

from __future__ import annotations

import asyncio
import json
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

GRACE = 0.3
"""Seconds programs have to leave by themselves when their shell is closed."""


@dataclass(frozen=True, slots=True)
class Account:
    """The user a shell runs as, when that is not the server's own."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str


class Keeper(Closable):
    """Starts shells as children of a process of its own; closing it ends every one of theirs.

    If the keeper process dies, `on_exit` of every shell is called with -9 and further spawns
    raise `SandboxDied`.
    """

    def __init__(self, *, directory: Path | None = None) -> None:
        self._directory = directory
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

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        terminal: int,
        channel: int,
        account: Account | None,
        on_exit: Callable[[int], None],
    ) -> int:
        """Start `argv` with `terminal` as its controlling terminal and `channel` as its input.

        Returns its pid; `on_exit` gets its status (negative: the signal) once it has ended.
        Raises `SandboxStartFailed` naming what did not work.
        """
        await self._ensure_started()
        assert self._loop is not None
        self._next_id += 1
        spawn_id = self._next_id
        spawned: asyncio.Future[int] = self._loop.create_future()
        self._spawning[spawn_id] = spawned
        self._send(
            {
                "op": "spawn",
                "id": spawn_id,
                "argv": list(argv),
                "env": dict(env),
                "cwd": cwd,
                "uid": account.uid if account else None,
                "gid": account.gid if account else None,
                "groups": list(account.groups) if account else [],
            },
            terminal,
            channel,
        )
        try:
            pid = await spawned
        except asyncio.CancelledError:
            self._unwanted.add(spawn_id)
            raise
        if pid in self._early:
            on_exit(self._early.pop(pid))
        else:
            self._watched[pid] = on_exit
        return pid

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
        try:
            self._process = await asyncio.to_thread(
                subprocess.Popen,
                argv,
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # a Ctrl-C typed at the server is not for the keeper
            )
        except OSError as error:
            ours.close()
            raise SandboxStartFailed(f"the shell keeper did not start: {error}") from error
        finally:
            theirs.close()
        self._link = ours
        self._loop.add_reader(ours, self._receive)

    def _send(self, message: Mapping[str, Any], *fds: int) -> None:
        if self._link is None:
            raise SandboxDied("the process that keeps this sandbox's shells has ended")
        body = json.dumps(message).encode()
        frame = struct.pack("!I", len(body)) + body
        # Blocking: a frame is small beside the socket's buffer, and the keeper always reads.
        self._link.setblocking(True)
        try:
            sent = socket.send_fds(self._link, [frame], fds) if fds else self._link.send(frame)
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
            data = self._link.recv(65536)
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
            message = json.loads(self._inbox[4 : 4 + size])
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

    def _lose(self, why: str) -> None:
        """The keeper is gone, and with it every shell."""
        if self._link is not None and self._loop is not None:
            self._loop.remove_reader(self._link)
            self._link.close()
        self._link = None
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
