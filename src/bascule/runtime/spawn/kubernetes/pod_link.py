"""A hub's connections to the gateway of one pod.

The hub's other parts reach a session by unix sockets in its `run_dir`, and a session reaches the
hub by unix sockets. A `PodLink` makes both true for a pod: it mirrors the sockets of the session in
`run_dir`, and it connects programs of the session with the hub's sockets.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from weakref import WeakSet

from bascule.core.contracts import Closable
from bascule.core.errors import SandboxUnreachable
from bascule.core.rate_limit import RateLimit
from bascule.serving.sockets import stop_accepting, unix_listener

from .frames import ByteStream, join, receive_message, send_message

logger = logging.getLogger(__name__)

_NAMES: Final = re.compile(r"(sandbox|vscode|app\d{1,2})\.sock")
"""Sockets that are mirrored. The pod is not trusted: other names could be paths."""
_CONNECT_TIMEOUT: Final = 15.0
_PARKED: Final = 2
"""Idle connections to the gateway for each socket of the hub, for programs of the session."""
_MAX_CONNECTIONS: Final = 512
_PARKS_PER_SECOND: Final = 20.0
"""Connections per second that programs of one session open to sockets of the hub, after a burst.
Each costs a TLS handshake."""
_PARK_BURST: Final = 100
_CLOSE_TIMEOUT: Final = 1.0
_FIRST_DELAY: Final = 0.1
_MAX_DELAY: Final = 5.0


@dataclass(frozen=True, slots=True)
class PodAddress:
    """Where the gateway of a pod listens."""

    host: str
    port: int


class PodLink(Closable):
    """Connected from `open` until `aclose`. Lost connections are made again."""

    def __init__(
        self,
        address: PodAddress,
        tls: ssl.SSLContext,
        *,
        run_dir: Path,
        hub_sockets: Mapping[str, Path],
    ) -> None:
        """`tls` accepts only this pod. `hub_sockets`: where connections of the session's programs
        go, by the names in `pod_gateway.PARKED`."""
        self._address = address
        self._tls = tls
        self._run_dir = run_dir
        self._hub_sockets = hub_sockets
        self._mirrored: dict[str, asyncio.Server] = {}
        self._changed = asyncio.Condition()
        self._park_rate = RateLimit(burst=_PARK_BURST, per_second=_PARKS_PER_SECOND)
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections: set[asyncio.Task[None]] = set()
        self._closing: WeakSet[socket.socket] = WeakSet()
        """Sockets of connections that failed, until their transports have closed them."""

    async def request(self, request: str, *, timeout: float, **parameters: Any) -> Any:
        """Send a request to the gateway and return the answer.

        Raises `SandboxUnreachable` if there is no answer or if the gateway refuses.
        """
        try:
            async with asyncio.timeout(timeout):
                stream = await self._dial("control", request=request, **parameters)
                try:
                    return _accepted(await receive_message(stream)).get("answer")
                finally:
                    stream.abort()  # nothing follows the answer
        except TimeoutError:
            raise SandboxUnreachable(
                f"The pod did not answer the request {request!r} within {timeout:g} seconds"
            ) from None

    def open(self) -> None:
        """Begin to mirror sockets, and to wait for connections of the session's programs."""
        self._begin(self._mirror())
        for name, path in self._hub_sockets.items():
            for _ in range(_PARKED):
                self._begin(self._serve_parked(name, path))

    async def aclose(self) -> None:
        """Close all connections and remove the mirrored sockets."""
        for task in self._tasks | self._connections:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._connections, return_exceptions=True)
        await self._show(())
        await asyncio.sleep(0)  # the loop closes aborted connections in its next iteration
        await self._until_closed()

    async def until_mirrored(self, name: str) -> None:
        """Wait until the session listens on the socket."""
        async with self._changed:
            await self._changed.wait_for(lambda: name in self._mirrored)

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Sockets of the session ---------------------------------------------------------------

    async def _mirror(self) -> None:
        delay = _FIRST_DELAY
        while True:
            try:
                stream = await self._dial("sockets")
                try:
                    while True:
                        message = _accepted(await receive_message(stream))
                        await self._show_whole(message.get("sockets") or ())
                        delay = _FIRST_DELAY
                finally:
                    stream.abort()
            except SandboxUnreachable as error:
                logger.debug("the sockets of a pod cannot be listed: %s", error.message)
            await self._show_whole(())
            # No event reports that the pod is reachable again.
            await asyncio.sleep(delay * random.uniform(0.5, 1.5))  # noqa: S311
            delay = min(delay * 2, _MAX_DELAY)

    async def _show_whole(self, names: Any) -> None:
        """Run `_show` to its end even if this task is cancelled.

        Otherwise a socket that a thread is creating would be lost.
        """
        showing = asyncio.ensure_future(self._show(names))
        try:
            await asyncio.shield(showing)
        except asyncio.CancelledError:
            await showing
            raise

    async def _show(self, names: Any) -> None:
        """Listen on exactly these sockets in `run_dir`."""
        wanted = {each for each in names if isinstance(each, str) and _NAMES.fullmatch(each)}
        for name in self._mirrored.keys() - wanted:
            await stop_accepting(self._mirrored.pop(name))
            await asyncio.to_thread((self._run_dir / name).unlink, missing_ok=True)
        for name in sorted(wanted - self._mirrored.keys()):
            listening = await asyncio.to_thread(unix_listener, self._run_dir / name)
            self._mirrored[name] = await asyncio.start_unix_server(
                partial(self._accept, name), sock=listening
            )
        async with self._changed:
            self._changed.notify_all()

    async def _accept(
        self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        plain = ByteStream(reader, writer)
        if len(self._connections) >= _MAX_CONNECTIONS:
            logger.warning("more than %d connections to a pod; one is refused", _MAX_CONNECTIONS)
            plain.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            framed = await self._dial("socket", name=name)
            try:
                _accepted(await receive_message(framed))
            except BaseException:
                framed.abort()
                raise
            await join(framed, plain)
        except SandboxUnreachable as error:
            logger.debug("a connection to %s of a pod failed: %s", name, error.message)
            plain.abort()
        except asyncio.CancelledError:
            plain.abort()  # cancelled by `aclose`; asyncio's stream callback would log it
        finally:
            self._connections.discard(task)

    # Sockets of the hub -------------------------------------------------------------------

    async def _serve_parked(self, name: str, path: Path) -> None:
        delay = _FIRST_DELAY
        while True:
            await self._park_rate.wait()
            try:
                framed = await self._dial("park", name=name)
                try:
                    _accepted(await receive_message(framed))
                except BaseException:
                    framed.abort()
                    raise
                if self._connect_to_hub(framed, path):
                    delay = _FIRST_DELAY
                    continue
                logger.debug("more than %d connections to a pod; one is refused", _MAX_CONNECTIONS)
            except SandboxUnreachable as error:
                logger.debug("a connection from a pod was lost: %s", error.message)
            # No event reports that the pod is reachable, or that a connection has ended.
            await asyncio.sleep(delay * random.uniform(0.5, 1.5))  # noqa: S311
            delay = min(delay * 2, _MAX_DELAY)

    def _connect_to_hub(self, framed: ByteStream, path: Path) -> bool:
        """Whether the connection is accepted: the pod has not too many."""
        if len(self._connections) >= _MAX_CONNECTIONS:
            framed.abort()
            return False
        task = asyncio.create_task(_join_with(framed, path))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        # A task that is cancelled before its first step never reaches its own cleanup.
        task.add_done_callback(lambda _: framed.abort())
        return True

    # Dialling -----------------------------------------------------------------------------

    async def _dial(self, purpose: str, **parameters: Any) -> ByteStream:
        """Connect to the gateway, and send the message that says what the connection is for."""
        host = self._address.host
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                stream = await self._connect()
        except TimeoutError:
            raise SandboxUnreachable(f"The pod at {host} does not answer") from None
        except OSError as error:  # includes a key that is not the pod's
            raise SandboxUnreachable(f"The pod at {host} cannot be reached: {error}") from error
        try:
            await send_message(stream, {"purpose": purpose, **parameters})
        except OSError as error:
            stream.abort()
            raise SandboxUnreachable(f"The pod at {host} closed a connection: {error}") from error
        except BaseException:
            stream.abort()
            raise
        return stream

    async def _connect(self) -> ByteStream:
        host, port = self._address.host, self._address.port
        sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        sock.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(sock, (host, port))
        except BaseException:
            sock.close()
            raise
        try:
            return ByteStream.of(
                await asyncio.open_connection(sock=sock, ssl=self._tls, server_hostname=host)
            )
        except BaseException:
            # The transport owns the socket. If it is cancelled at the end of the TLS handshake, it
            # would wait up to 30 seconds for the peer's answer to its TLS close message.
            self._closing.add(sock)
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            raise

    async def _until_closed(self) -> None:
        """Wait until transports of failed connections have closed their sockets."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                # No event reports that such a transport has closed its socket.
                while any(sock.fileno() >= 0 for sock in self._closing):  # noqa: ASYNC110
                    await asyncio.sleep(0)


async def _join_with(framed: ByteStream, path: Path) -> None:
    try:
        plain = ByteStream.of(await asyncio.open_unix_connection(path))
    except BaseException as error:
        framed.abort()
        if isinstance(error, OSError):
            logger.debug("the hub's socket %s does not answer: %s", path.name, error)
            return
        raise
    await join(framed, plain)


def _accepted(message: Mapping[str, Any]) -> Mapping[str, Any]:
    if "error" in message:
        raise SandboxUnreachable(f"The pod refused: {message['error']}")
    return message
