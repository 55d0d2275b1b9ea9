"""A Socket.IO client: one namespace of one server, kept connected. The only user of the library."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import aiohttp
import engineio
import pydantic_core
import socketio

from bascule.core.contracts import Closable
from bascule.core.errors import (
    AccessDenied,
    BasculeError,
    HubUnreachable,
    UsageError,
    VersionMismatch,
)
from bascule.wire import error_from_wire

logger = logging.getLogger(__name__)

PROTOCOL: Final = 1
"""The number both ends of a hub's sockets send; docs/extension-protocol.md is what it means."""

Handler = Callable[..., Awaitable[Any]]

_FIRST_DELAY: Final = 0.05
_LONGEST_DELAY: Final = 5.0
_HELLO: Final = 30.0
"""Seconds a server has to greet a socket it accepted."""
_OVERHEAD: Final = 1 << 16
"""Bytes of a frame that are not the message."""


class SocketJson:
    """The `json` module for Socket.IO's packets: UTF-8 unescaped, NaN refused both ways.

    Escaping all that is not ASCII, as the library would, makes a message up to three times
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

    The library would search every message for bytes, which costs more than everything else.
    """

    uses_binary_events = False
    json = SocketJson


class _Queue(asyncio.Queue[Any]):
    """The packet queue of the library's writer; None ends it.

    It takes all that is there at a time, and when None is the last of them it drops it and waits
    for more: a connection that broke just then is noticed 15 seconds late. So None is only ever
    handed out alone.
    """

    _is_waiting = False

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
    def _engineio_client_class(self) -> type[_Engine]:
        return _Engine


class SocketClient(Closable):
    """A namespace that stays connected from `connect` to `aclose`.

    A lost connection is made again with growing delays; events meanwhile raise `HubUnreachable`
    and are not kept. `on_connected` is awaited with the server's greeting each time, before
    `is_connected` is set; `on_lost` is called each time it breaks. A refusal is final: it is
    raised by `connect`, and by every call from then on.
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
        self._settled = asyncio.Event()
        """Connected, or never again."""
        self._keeper: asyncio.Task[None] | None = None
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
        if self._keeper is not None:
            return
        lost = await self._connect_once()
        self._keeper = asyncio.create_task(self._keep(lost))

    async def wait_connected(self) -> None:
        """Wait until connected; raises the refusal if the server refuses for good."""
        await self._settled.wait()
        self._ensure_open()

    async def wait_refused(self) -> None:
        """Wait until the server ends the connection for good, and raise the reason."""
        while self._refused is None:
            keeper = self._keeper
            assert keeper is not None, "not connected yet"
            await asyncio.wait({keeper})
            self._ensure_open()
        raise self._refused

    async def emit(self, event: str, data: object) -> None:
        self._ensure_open()
        await self._live.emit(event, data, namespace=self.namespace)

    async def call(self, event: str, data: object, *, timeout: float) -> Any:
        """Send, and return the acknowledgement. Raises `HubUnreachable` if none arrives."""
        self._ensure_open()
        socket = self._live
        try:
            return await socket.call(event, data, namespace=self.namespace, timeout=timeout)
        except socketio.exceptions.TimeoutError:
            raise self._unreachable(f"did not acknowledge {event} in {timeout:g} s") from None

    async def aclose(self) -> None:
        self._closed = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        await self._discard()
        self._settled.set()  # wakes those who wait, to be told that it is over

    # One connection -----------------------------------------------------------------------

    async def _connect_once(self) -> asyncio.Event:
        """Connect and wait for the greeting; returns an event that is set when the connection is
        lost."""
        lost = asyncio.Event()
        greeted: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._socket = self._make(greeted, lost)
        try:
            await self._open(self._socket, greeted)
            async with asyncio.timeout(_HELLO):
                greeting = await greeted
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

    def _make(
        self, greeted: asyncio.Future[Mapping[str, Any]], lost: asyncio.Event
    ) -> socketio.AsyncClient:
        socket = _Socket(
            reconnection=False,
            handle_sigint=False,
            serializer=TextPacket,
            websocket_extra_options={"max_msg_size": self._max_message + _OVERHEAD},
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
                    f"The hub at {self.url} ended this connection; connect again when asked to"
                )
            lost.set()

        def fail(error: BasculeError) -> None:
            if not greeted.done():
                greeted.set_exception(error)
                greeted.exception()  # told to whoever waits, if anybody does

        own: dict[str, Handler] = {
            "hello": hello,
            "refused": refused,
            "connect_error": connect_error,
            "disconnect": disconnect,
        }
        for event, handler in (own | dict(self._handlers)).items():
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
                wait_timeout=_HELLO,
            )
        except socketio.exceptions.ConnectionError as error:
            if greeted.done() and (said := greeted.exception()) is not None:
                raise said from error
            raise self._why(error) from error

    def _why(self, error: Exception) -> BasculeError:
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
        socket, self._socket = self._socket, None
        self._settled.clear()
        if socket is not None:
            await socket.disconnect()
            await socket.eio.disconnect(abort=True)

    # Keeping it ---------------------------------------------------------------------------

    async def _keep(self, lost: asyncio.Event) -> None:
        try:
            while True:
                await lost.wait()
                self._note_loss()
                await self._discard()
                if self._refused is not None:
                    raise self._refused
                lost = await self._connect_again()
        except BasculeError as error:
            logger.info("the connection to %s is over: %s", self.url, error.message)
            self._refused = error
            self._settled.set()

    def _note_loss(self) -> None:
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
            # There is no event for a server that comes up; the wait grows, and is spread so
            # that a hundred clients of a restarted hub do not come at once.
            await asyncio.sleep(delay * random.uniform(0.5, 1.5))  # noqa: S311
            delay = min(delay * 2, _LONGEST_DELAY)

    @property
    def _live(self) -> socketio.AsyncClient:
        if self._socket is None or self.namespace not in self._socket.namespaces:
            raise self._unreachable("is not connected", sent=False)
        return self._socket

    def _ensure_open(self) -> None:
        if self._refused is not None:
            raise self._refused
        if self._closed:
            raise UsageError("This connection was closed; make another")

    def _unreachable(self, what: str, *, sent: bool = True) -> HubUnreachable:
        return HubUnreachable(f"The hub at {self.url} {what}", url=self.url, sent=sent)


def ensure_protocol(number: object, *, who: str) -> None:
    """Raise `VersionMismatch` if versions differ; the message says which side to update."""
    if number != PROTOCOL:
        older = isinstance(number, int) and number < PROTOCOL
        raise VersionMismatch(
            f"{who} speaks version {number} of the protocol and this hub version {PROTOCOL}; "
            f"update {who if older else 'the hub'}",
            theirs=number,
            ours=PROTOCOL,
        )
