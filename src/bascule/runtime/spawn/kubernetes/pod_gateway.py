"""The server in a session's pod, through which a hub reaches everything in the pod.

A pod opens no connection to a hub. The hub connects to the gateway, and its first message says what
the connection is for (`Purpose`). The gateway waits for the launch settings, starts the session's
action server with them, and ends with it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import ssl
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from bascule.core.contracts import Closable
from bascule.core.errors import BasculeError, InvalidRequest, InvalidState, SandboxUnreachable
from bascule.core.sessions import Usage
from bascule.runtime.spawn import disk
from bascule.runtime.spawn.freezing import ListProcesses, freeze, thaw
from bascule.sandbox.process_table import usage_of
from bascule.serving.sockets import stop_accepting, unix_listener

from .directory_events import sockets_in
from .frames import ByteStream, join, receive_message, send_message

Purpose = Literal["control", "socket", "sockets", "park"]
"""What a connection from the hub is for.

- control: one request and its answer.
- socket: a connection to a unix socket of the session.
- sockets: the names of the session's sockets, now and after every change.
- park: an idle connection, which the gateway uses when a program of the session connects to a
  socket of the hub.
"""

PARKED: Final = ("hub", "egress")
"""Sockets of the hub that programs of the session can connect to."""

_MAX_PARKED: Final = 16
_MAX_WAITING: Final = 256
"""Connections of programs to the hub that wait for a parked one, for each socket."""
_PARK_TIMEOUT: Final = 15.0
_OPENING_TIMEOUT: Final = 20.0
_LISTEN_TIMEOUT: Final = 1.0
_LISTEN_INTERVAL: Final = 0.01
_PROBE_TIMEOUT: Final = 1.0
_PROBE_INTERVAL: Final = 0.5
_ROUNDS: Final = 2
"""How many times in a row all probes have to fail before the network policy counts as enforced."""
_KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """Paths in the pod."""

    run_dir: Path
    """Directory of the session's own sockets."""
    hub_dir: Path
    """Directory for the sockets of the hub: `hub.sock` and `egress.sock`."""
    list_processes: ListProcesses
    """All processes of the session: in a pod, all except the gateway's own."""
    measured: Sequence[Path] = ()
    """Directories that count as the session's disk space."""
    command: Sequence[str] = (sys.executable, "-m", "bascule.sandbox.session")
    variables: Mapping[str, str] | None = None
    """The image's environment variables, which those of the launch settings override."""


class PodGateway(Closable):
    """Serves one session, from `open` until `aclose`."""

    def __init__(self, settings: GatewaySettings, tls: ssl.SSLContext) -> None:
        self._settings = settings
        self._tls = tls
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._parked: dict[str, deque[ByteStream]] = {name: deque() for name in PARKED}
        self._arrivals = {name: asyncio.Condition() for name in PARKED}
        self._waiting = dict.fromkeys(PARKED, 0)
        self._session: asyncio.subprocess.Process | None = None
        self._is_paused = False
        self._turn = asyncio.Lock()
        """Held by one request that starts, pauses or resumes the session."""
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """The exit status of the session's action server."""

    async def open(self, sock: socket.socket) -> None:
        """Listen on `sock` for the hub, and on the hub's sockets for programs of the session."""
        for name in PARKED:
            path = self._settings.hub_dir / f"{name}.sock"
            listening = await asyncio.to_thread(unix_listener, path)
            self._servers.append(
                await asyncio.start_unix_server(
                    partial(self._serve, partial(self._to_hub, name)),
                    sock=listening,
                )
            )
        self._servers.append(
            await asyncio.start_server(
                partial(self._serve, self._from_hub),
                sock=sock,
                ssl=self._tls,
                ssl_handshake_timeout=_OPENING_TIMEOUT,
            )
        )

    async def aclose(self) -> None:
        """Close all connections. The session is not ended: the pod ends with this process."""
        for server in self._servers:
            await stop_accepting(server)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def terminate(self) -> None:
        """Ask the session to end. `ended` is set when it has."""
        if self._session is None:
            if not self.ended.done():
                self.ended.set_result(0)
            return
        with suppress(ProcessLookupError):
            self._session.send_signal(signal.SIGTERM)
        if self._is_paused:
            await asyncio.to_thread(thaw, self._settings.list_processes)

    # Connections --------------------------------------------------------------------------

    async def _serve(
        self,
        handle: Callable[[ByteStream], Awaitable[None]],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await handle(ByteStream(reader, writer))
        except asyncio.CancelledError:
            return  # cancelled by `aclose`; asyncio's stream callback would log it
        finally:
            self._tasks.discard(task)

    async def _from_hub(self, stream: ByteStream) -> None:
        _keep_alive(stream)
        try:
            async with asyncio.timeout(_OPENING_TIMEOUT):
                opening = await receive_message(stream)
            await self._open_for(stream, opening)
        except BasculeError as error:
            with suppress(OSError):
                await send_message(stream, {"error": error.message})
        except (OSError, TimeoutError):
            stream.abort()
        except asyncio.CancelledError:
            stream.abort()
            raise
        finally:
            stream.close()

    async def _open_for(self, stream: ByteStream, opening: Mapping[str, Any]) -> None:
        purpose, name = opening.get("purpose"), str(opening.get("name", ""))
        match purpose:
            case "control":
                answer = await self._answer(opening)
                await send_message(stream, {"answer": answer})
            case "socket":
                await self._connect(stream, name)
            case "sockets":
                await self._report_sockets(stream)
            case "park" if name in PARKED:
                await self._park(stream, name)
            case _:
                raise InvalidRequest(f"The gateway does not know {purpose!r} {name!r}")

    async def _report_sockets(self, stream: ByteStream) -> None:
        """Send the names of the sockets until the hub closes the connection."""
        reporting = asyncio.create_task(self._send_sockets(stream))
        closed = asyncio.create_task(stream.writer.wait_closed())
        try:
            await asyncio.wait({reporting, closed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            reporting.cancel()
            closed.cancel()
            await asyncio.gather(reporting, closed, return_exceptions=True)

    async def _send_sockets(self, stream: ByteStream) -> None:
        async with aclosing(sockets_in(self._settings.run_dir)) as changes:
            async for names in changes:
                await send_message(stream, {"sockets": names})

    async def _connect(self, stream: ByteStream, name: str) -> None:
        if "/" in name or not name.endswith(".sock"):
            raise InvalidRequest(f"{name!r} is not the name of a socket")
        path = self._settings.run_dir / name
        try:
            plain = ByteStream.of(await _connect_to_new(path))
        except OSError as error:
            raise SandboxUnreachable(f"{name}: {error.strerror or error}") from error
        await send_message(stream, {})
        await join(stream, plain)

    async def _park(self, stream: ByteStream, name: str) -> None:
        """Keep the connection until a program takes it or the hub closes it."""
        parked = self._parked[name]
        while parked and (parked[0].is_lost or len(parked) >= _MAX_PARKED):
            parked.popleft().abort()
        async with self._arrivals[name]:
            parked.append(stream)
            self._arrivals[name].notify()
        await stream.writer.wait_closed()

    async def _to_hub(self, name: str, plain: ByteStream) -> None:
        if self._waiting[name] >= _MAX_WAITING:
            plain.abort()
            return
        self._waiting[name] += 1
        try:
            async with asyncio.timeout(_PARK_TIMEOUT):
                stream = await self._take(name)
        except TimeoutError:
            plain.abort()
            return
        finally:
            self._waiting[name] -= 1
        await join(stream, plain)

    async def _take(self, name: str) -> ByteStream:
        """A parked connection. The hub has been notified that it is in use."""
        while True:
            async with self._arrivals[name]:
                await self._arrivals[name].wait_for(lambda: self._parked[name])
                stream = self._parked[name].pop()
            if not stream.is_lost:
                with suppress(OSError):
                    await send_message(stream, {"taken": name})
                    return stream

    # Requests -----------------------------------------------------------------------------

    async def _answer(self, request: Mapping[str, Any]) -> Any:
        match request.get("request"):
            case "blocked":
                return await self._is_blocked(request["targets"], float(request["within"]))
            case "launch":
                async with self._turn:
                    await self._launch(request["launch"])
            case "pause":
                async with self._turn:
                    self._ensure_launched()
                    await asyncio.to_thread(
                        freeze, self._settings.list_processes, self._stopped_file
                    )
                    self._is_paused = True
            case "resume":
                async with self._turn:
                    self._ensure_launched()
                    await asyncio.to_thread(thaw, self._settings.list_processes, self._stopped_file)
                    self._is_paused = False
            case "status":
                return {"is_launched": self._session is not None, "is_paused": self._is_paused}
            case "usage":
                return asdict(await asyncio.to_thread(self._usage))
            case "disk":
                return await self._disk()
            case other:
                raise InvalidRequest(f"The gateway does not know the request {other!r}")
        return None

    async def _launch(self, launch: Mapping[str, Any]) -> None:
        if self._session is not None:
            raise InvalidState("The session of this pod has been launched already")
        variables = self._settings.variables or {}
        line = json.dumps({**launch, "environment": {**variables, **launch["environment"]}})
        self._session = await asyncio.create_subprocess_exec(
            *self._settings.command, stdin=asyncio.subprocess.PIPE, start_new_session=True
        )
        watching = asyncio.create_task(self._watch_session(self._session))
        self._tasks.add(watching)
        watching.add_done_callback(self._tasks.discard)
        assert self._session.stdin is not None
        with suppress(OSError):  # it has ended; the hub reads its log
            self._session.stdin.write(line.encode() + b"\n")
            await self._session.stdin.drain()
            self._session.stdin.close()

    async def _watch_session(self, session: asyncio.subprocess.Process) -> None:
        status = await session.wait()
        if not self.ended.done():
            self.ended.set_result(status if status >= 0 else 128 - status)

    def _ensure_launched(self) -> None:
        if self._session is None:
            raise InvalidState("The session of this pod has not been launched")

    @property
    def _stopped_file(self) -> Path:
        return self._settings.hub_dir / "stopped.json"

    def _usage(self) -> Usage:
        return usage_of(self._settings.list_processes().values())

    async def _disk(self) -> int:
        total = 0
        for directory in self._settings.measured:
            descriptor = await asyncio.to_thread(os.open, directory, os.O_RDONLY | os.O_DIRECTORY)
            try:
                total += await disk.used(descriptor)
            finally:
                os.close(descriptor)
        return total

    async def _is_blocked(self, targets: Sequence[Sequence[Any]], within: float) -> bool:
        """Whether connections to the targets fail, at the latest after `within` seconds.

        Network policies take effect some time after a pod has started, and no event reports it.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        failed_rounds = 0
        while True:
            reached = await asyncio.gather(*(_reaches(str(h), int(p)) for h, p in targets))
            failed_rounds = 0 if any(reached) else failed_rounds + 1
            if failed_rounds == _ROUNDS:
                return True
            if any(reached) and loop.time() >= deadline:
                return False
            # Also after a failed round: a route that is missing for a moment fails at once.
            await asyncio.sleep(_PROBE_INTERVAL)


async def _connect_to_new(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a socket that may just have been created: its server binds it before it listens
    on it, and no event reports the second step."""
    deadline = asyncio.get_running_loop().time() + _LISTEN_TIMEOUT
    while True:
        try:
            return await asyncio.open_unix_connection(path)
        except ConnectionRefusedError:
            if asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(_LISTEN_INTERVAL)


async def _reaches(host: str, port: int) -> bool:
    """Whether a connection can be made. A refused one does not count: some network plug-ins, such
    as kube-router, refuse what a policy forbids, and a program cannot see who refused."""
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT):
            _, writer = await asyncio.open_connection(host, port)
    except OSError:  # includes `TimeoutError`
        return False
    writer.transport.abort()
    return True


def _keep_alive(stream: ByteStream) -> None:
    """Detect that the hub's machine has failed: such a hub does not close its connections."""
    sock = stream.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
