"""A Socket.IO client that keeps one namespace of one server connected."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import pydantic_core

from bascule.core.contracts import Closable
from bascule.core.errors import (
    AccessDenied,
    BasculeError,
    HubUnreachable,
    MessageTooLarge,
    UsageError,
    VersionMismatch,
)
from bascule.core.extras import missing_extra
from bascule.wire import error_from_wire

try:
    import aiohttp
    import engineio
    import socketio
except ModuleNotFoundError as error:
    raise missing_extra(error) from error

logger = logging.getLogger(__name__)

PROTOCOL: Final = 1
"""Protocol version that both ends of a hub's sockets send: docs/extension-protocol.md."""

Handler = Callable[..., Awaitable[Any]]

_FIRST_DELAY: Final = 0.05
_MAX_DELAY: Final = 5.0
"""Seconds before the first attempt to reconnect; the delay then doubles up to the maximum."""
_GREETING_TIMEOUT: Final = 30.0
"""Seconds for a server to send its greeting."""
_FRAME_OVERHEAD_BYTES: Final = 1 << 16
"""Bytes that a frame may add to its message."""


class SocketJson:
    """The `json` module for Socket.IO's packets: UTF-8 unescaped, NaN refused both ways.

    The library would escape all non-ASCII characters. That makes a message up to three times
    larger than the size its sender checked.
    """

    @staticmethod
    def dumps(value: object, **_: object) -> str:
        return pydantic_core.to_json(value, inf_nan_mode="constants").decode()

    @staticmethod
    def loads(text: str | bytes, **_: object) -> Any:
        return pydantic_core.from_json(text, allow_inf_nan=False)


class TextPacket(socketio.packet.Packet):  # type: ignore[misc]  # the library has no types
    """Packets without binary data, for both ends.

    The library would search every message for bytes, which takes longer than everything else.
    """

    uses_binary_events = False
    json = SocketJson


class _Queue(asyncio.Queue[Any]):
    """The packet queue of the library's writer; None ends the writer.

    The writer takes all queued packets at once. If None is the last of them, it drops the None and
    waits for more, so it notices a broken connection 15 seconds late. This queue therefore never
    returns None together with packets.
    """

    _is_waiting = False
    """Whether `get` runs, which calls `get_nowait` itself and may return None."""

    async def get(self) -> Any:
        self._is_waiting = True
        try:
            return await super().get()
        finally:
            self._is_waiting = False

    def get_nowait(self) -> Any:
        if not self._is_waiting and self.qsize() and self._queue[0] is None:  # type: ignore[attr-defined]
            raise asyncio.QueueEmpty
        return super().get_nowait()


class _Engine(engineio.AsyncClient):  # type: ignore[misc]  # the library has no types
    def create_queue(self, *_: Any, **__: Any) -> _Queue:
        return _Queue()


class _Socket(socketio.AsyncClient):  # type: ignore[misc]  # the library has no types
    max_sent = 0
    """Maximum bytes of a packet to send; 0: no limit."""

    def _engineio_client_class(self) -> type[_Engine]:
        return _Engine

    async def _send_packet(self, pkt: Any) -> None:
        """Send a packet, after a check of its size. Encodes it only once."""
        text = pkt.encode()
        # A character has at most 4 bytes, so few packets have to be counted.
        if self.max_sent and 4 * len(text) > self.max_sent:
            size = len(text) if text.isascii() else len(text.encode())
            if size > self.max_sent:
                raise MessageTooLarge(
                    f"The message has {size} bytes and the hub takes {self.max_sent}",
                    limit=self.max_sent,
                )
        await self.eio.send(text)


class SocketClient(Closable):
    """A namespace that stays connected from `connect` to `aclose`.

    It reconnects with growing delays. While it is disconnected, sending raises `HubUnreachable`
    and nothing is queued. After each connect it awaits `on_connected` with the server's greeting,
    before `is_connected` is true. It calls `on_lost` each time the connection breaks. A refusal is
    final: `connect` and every later call raise it. A message above the limit in the greeting is
    not sent; `emit` and `call` raise `MessageTooLarge`.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        namespace: str,
        client: str,
        handlers: Mapping[str, Handler],
        on_connected: Callable[[Mapping[str, Any]], Awaitable[None]] | None = None,
        on_lost: Callable[[], None] | None = None,
        max_message: int = 64 << 20,
        protocol: int = PROTOCOL,
    ) -> None:
        self.url = url.rstrip("/")
        self.namespace = namespace
        self._token = token
        self._client = client
        self._handlers = handlers
        self._on_connected = on_connected
        self._on_lost = on_lost
        self._max_message = max_message
        self._protocol = protocol
        self._socket: socketio.AsyncClient | None = None
        self._unclosed: list[socketio.AsyncClient] = []
        self._settled = asyncio.Event()
        """Set while connected, and permanently after a refusal or `aclose`."""
        self._connection_task: asyncio.Task[None] | None = None
        self._refused: BasculeError | None = None
        self._closed = False

    @property
    def is_connected(self) -> bool:
        return self._settled.is_set() and self._refused is None and not self._closed

    async def connect(self) -> None:
        """Connect. Raises `HubUnreachable`, `AccessDenied`, `VersionMismatch` or the server's
        error."""
        if self._closed:
            raise UsageError("This connection was closed; make another")
        if self._connection_task is not None:
            return
        lost = await self._connect_once()
        self._connection_task = asyncio.create_task(self._stay_connected(lost))

    async def wait_connected(self) -> None:
        """Wait until connected. Raises the server's error if it refused the connection."""
        await self._settled.wait()
        self._ensure_open()

    async def wait_refused(self) -> None:
        """Wait until the server refuses or ends the connection permanently; raises the reason."""
        while self._refused is None:
            task = self._connection_task
            assert task is not None, "not connected yet"
            await asyncio.wait({task})
            self._ensure_open()
        raise self._refused

    async def emit(self, event: str, data: object) -> None:
        self._ensure_open()
        await self._open_socket.emit(event, data, namespace=self.namespace)

    async def call(self, event: str, data: object, *, timeout: float) -> Any:
        """Send, and return the acknowledgement. Raises `HubUnreachable` if none arrives."""
        self._ensure_open()
        socket = self._open_socket
        try:
            return await socket.call(event, data, namespace=self.namespace, timeout=timeout)
        except socketio.exceptions.TimeoutError:
            raise self._unreachable(f"did not acknowledge {event} in {timeout:g} s") from None

    async def aclose(self) -> None:
        self._closed = True
        if self._connection_task is not None:
            self._connection_task.cancel()
            await asyncio.gather(self._connection_task, return_exceptions=True)
        await self._discard()
        self._settled.set()  # wakes `wait_connected`, which then raises

    # One connection -----------------------------------------------------------------------

    async def _connect_once(self) -> asyncio.Event:
        """Connect and wait for the greeting; returns an event that is set when the connection is
        lost."""
        lost = asyncio.Event()
        greeted: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._socket = self._new_socket(greeted, lost)
        self._unclosed.append(self._socket)
        try:
            await self._open(self._socket, greeted)
            async with asyncio.timeout(_GREETING_TIMEOUT):
                greeting = await greeted
            self._socket.max_sent = int(greeting.get("limits", {}).get("message_bytes", 0))
            if self._on_connected is not None:
                await self._on_connected(greeting)
        except TimeoutError:
            await self._discard()
            raise self._unreachable("does not speak our protocol: it sent no greeting") from None
        except BaseException:
            await self._discard()
            raise
        self._settled.set()
        return lost

    def _new_socket(
        self, greeted: asyncio.Future[Mapping[str, Any]], lost: asyncio.Event
    ) -> socketio.AsyncClient:
        socket = _Socket(
            reconnection=False,
            handle_sigint=False,
            serializer=TextPacket,
            websocket_extra_options={"max_msg_size": self._max_message + _FRAME_OVERHEAD_BYTES},
        )

        async def hello(data: Mapping[str, Any]) -> None:
            if not greeted.done():
                greeted.set_result(data)

        async def refused(data: Mapping[str, Any]) -> None:
            fail(error_from_wire(data))

        async def connect_error(data: object = None) -> None:
            if isinstance(data, Mapping) and "data" in data:
                fail(error_from_wire(data["data"]))

        async def disconnect(reason: object = None, *_: object) -> None:
            fail(self._unreachable("closed the connection"))
            if reason == socket.reason.SERVER_DISCONNECT and not self._closed:
                self._refused = self._refused or AccessDenied(
                    f"The hub at {self.url} ended this connection on purpose, so it is not "
                    "reconnected automatically"
                )
            lost.set()

        def fail(error: BasculeError) -> None:
            if not greeted.done():
                greeted.set_exception(error)
                greeted.exception()  # marks it as retrieved: else asyncio logs an error

        built_in_handlers: dict[str, Handler] = {
            "hello": hello,
            "refused": refused,
            "connect_error": connect_error,
            "disconnect": disconnect,
        }
        for event, handler in (built_in_handlers | dict(self._handlers)).items():
            socket.on(event, handler, namespace=self.namespace)
        return socket

    async def _open(
        self, socket: socketio.AsyncClient, greeted: asyncio.Future[Mapping[str, Any]]
    ) -> None:
        try:
            await socket.connect(
                self.url,
                headers={"Authorization": f"Bearer {self._token}"},
                auth={"protocol": self._protocol, "client": self._client},
                transports=["websocket"],
                namespaces=[self.namespace],
                wait_timeout=_GREETING_TIMEOUT,
            )
        except socketio.exceptions.ConnectionError as error:
            if greeted.done() and (failure := greeted.exception()) is not None:
                raise failure from error
            raise self._connect_error(error) from error

    def _connect_error(self, error: Exception) -> BasculeError:
        """The cause of a failed connection, from the handshake's answer; the library hides it."""
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, aiohttp.WSServerHandshakeError) and cause.status in (401, 403):
                return AccessDenied(
                    f"The hub at {self.url} refused the token or the caller (HTTP {cause.status})"
                )
            if isinstance(cause, aiohttp.ClientError):
                return self._unreachable(f"cannot be reached: {cause}")
            cause = cause.__cause__ or cause.__context__
        return self._unreachable(f"cannot be reached: {error}")

    async def _discard(self) -> None:
        """Close the connection. If this call is cancelled, the next call closes the rest."""
        self._socket = None
        self._settled.clear()
        while self._unclosed:
            socket = self._unclosed[0]
            await socket.disconnect()
            await socket.eio.disconnect(abort=True)
            if socket in self._unclosed:
                self._unclosed.remove(socket)

    # Reconnecting -------------------------------------------------------------------------

    async def _stay_connected(self, lost: asyncio.Event) -> None:
        try:
            while True:
                await lost.wait()
                self._report_loss()
                await self._discard()
                if self._refused is not None:
                    raise self._refused
                lost = await self._connect_again()
        except BasculeError as error:
            logger.info("the connection to %s is over: %s", self.url, error.message)
            self._refused = error
            self._settled.set()

    def _report_loss(self) -> None:
        self._settled.clear()
        if self._on_lost is not None:
            self._on_lost()

    async def _connect_again(self) -> asyncio.Event:
        delay = _FIRST_DELAY
        while True:
            try:
                return await self._connect_once()
            except HubUnreachable as error:
                logger.debug("trying again in %.2f s: %s", delay, error.message)
            # No event reports that a server is up again. The delay is random so that a hundred
            # clients of a restarted hub do not reconnect at once.
            await asyncio.sleep(delay * random.uniform(0.5, 1.5))  # noqa: S311
            delay = min(delay * 2, _MAX_DELAY)

    @property
    def _open_socket(self) -> socketio.AsyncClient:
        if self._socket is None or self.namespace not in self._socket.namespaces:
            raise self._unreachable("is not connected", sent=False)
        return self._socket

    def _ensure_open(self) -> None:
        if self._refused is not None:
            raise self._refused
        if self._closed:
            raise UsageError("This connection was closed; make another")

    def _unreachable(self, problem: str, *, sent: bool = True) -> HubUnreachable:
        return HubUnreachable(f"The hub at {self.url} {problem}", url=self.url, sent=sent)


def ensure_protocol(number: object, *, who: str) -> None:
    """Raise `VersionMismatch` if `number` is not `PROTOCOL`; the message says what to update.

    `who`: name of the other side, for the message.
    """
    if number != PROTOCOL:
        is_older = isinstance(number, int) and number < PROTOCOL
        raise VersionMismatch(
            f"{who} speaks version {number} of the protocol and this hub version {PROTOCOL}; "
            f"update {who if is_older else 'the hub'}",
            theirs=number,
            ours=PROTOCOL,
        )
