"""Run transport: a WebSocket to the window that started this process."""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Final

import bascule
from bascule.core.errors import (
    BridgeClosed,
    BridgeError,
    BridgeProtocol,
    BridgeRefused,
    BridgeTooLarge,
    BridgeUnavailable,
)
from bascule.link.websocket import (
    MESSAGE_TOO_BIG,
    WebSocketConnection,
    WebSocketLost,
    WebSocketRefused,
    WebSocketUnreachable,
)
from bascule.wire.bridge import (
    MAX_MESSAGE,
    PROTOCOL,
    SUBPROTOCOL,
    Hello,
    Message,
    decode,
    encode,
)

from .transport import TransportReceiver

logger = logging.getLogger(__name__)

_CONNECT_TIMEOUT: Final = 0.9
"""Seconds to connect to a window, which is on this machine."""
_FIRST_DELAY_SECONDS: Final = 0.05
_MAX_DELAY_SECONDS: Final = 5.0
_RECONNECT_TIMEOUT: Final = 30.0
"""Seconds to try to reconnect to a lost window."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a run's window listens. The `repr` does not show the token."""

    address: str
    """A complete `ws://` URL."""
    token: str = field(repr=False)
    session: str = ""


class _MessageRouter:
    """Passes the first message of a connection to the handshake, and the others to the receiver."""

    def __init__(self, receiver: TransportReceiver) -> None:
        self.first: SimpleQueue[Message] = SimpleQueue()
        self._receiver = receiver
        self._has_first = False

    def on_text(self, text: bytes) -> None:
        try:
            message = decode(text)
        except BridgeProtocol as error:
            logger.warning("the window sent an invalid message: %s", error.message)
            return
        if self._has_first:
            self._receiver.received(message)
        else:
            self._has_first = True
            self.first.put(message)


class RunTransport:
    """Keeps one WebSocket to `endpoint`, in its own thread."""

    kind = "run"

    def __init__(
        self, endpoint: Endpoint, *, reconnect_timeout: float = _RECONNECT_TIMEOUT
    ) -> None:
        self._endpoint = endpoint
        self._reconnect_timeout = reconnect_timeout
        self._connection: WebSocketConnection | None = None
        self._window_instance = ""
        """Id that the window sent. The id changes when the window reloads and forgets all
        requests."""
        self._is_same_window = False
        self._client = os.urandom(8).hex()
        """Lets the window recognize this client when it reconnects."""
        self._closing = threading.Event()

    def start(self, receiver: TransportReceiver) -> None:
        threading.Thread(
            target=self._stay_connected, args=(receiver,), name="vscode-bridge", daemon=True
        ).start()

    def send(self, message: Message) -> None:
        text = encode(message)
        connection = self._connection
        if connection is None:
            return
        try:
            connection.send(text)
        except WebSocketLost:
            return  # the reading thread notices the lost connection too, and reports it

    def close(self) -> None:
        self._closing.set()
        if (connection := self._connection) is not None:
            connection.close()

    # In the thread ------------------------------------------------------------------------

    def _stay_connected(self, receiver: TransportReceiver) -> None:
        try:
            self._connection = self._open(receiver)
            while True:
                self._serve(self._connection, receiver)
                if self._closing.is_set():
                    return
                receiver.lost()
                self._connection = self._reconnect(receiver)
        except BridgeError as error:
            self._connection = None
            receiver.ended(error)

    def _open(self, receiver: TransportReceiver) -> WebSocketConnection:
        """Connect and exchange greetings. Raises `BridgeUnavailable`, `BridgeRefused`, or
        `BridgeProtocol` if the server is not a bridge."""
        router = _MessageRouter(receiver)
        try:
            connection = WebSocketConnection.open(
                self._endpoint.address,
                headers={"Authorization": f"Bearer {self._endpoint.token}"},
                subprotocol=SUBPROTOCOL,
                limit=MAX_MESSAGE,
                timeout=_CONNECT_TIMEOUT,
                on_text=router.on_text,
            )
        except WebSocketRefused as error:
            raise self._refused(error.status) from error
        except WebSocketUnreachable as error:
            raise self._unavailable(str(error)) from error
        try:
            self._exchange_hello(connection, router.first)
        except BaseException:
            connection.close()
            raise
        return connection

    def _exchange_hello(self, connection: WebSocketConnection, first: SimpleQueue[Message]) -> None:
        about = {
            "id": self._client,
            "client": f"vscode_bridge/{bascule.__version__}",
            "pid": os.getpid(),
            "session": self._endpoint.session,
        }
        try:
            connection.send(encode(Hello(PROTOCOL, about)))
            hello = first.get(timeout=_CONNECT_TIMEOUT)
        except (WebSocketLost, Empty) as error:
            raise self._unavailable("it sends no hello") from error
        if not isinstance(hello, Hello):
            raise BridgeProtocol(f"The server at {self._endpoint.address} is not a bridge")
        if hello.protocol != PROTOCOL:
            raise BridgeProtocol(
                f"The window speaks version {hello.protocol} of the bridge and this script version "
                f"{PROTOCOL}; update the older of the two"
            )
        self._is_same_window = (
            bool(self._window_instance) and hello.about.get("instance") == self._window_instance
        )
        self._window_instance = str(hello.about.get("instance", ""))

    def _serve(self, connection: WebSocketConnection, receiver: TransportReceiver) -> None:
        """Report the connection to the receiver, and wait until the connection has ended."""
        receiver.connected(is_same_peer=self._is_same_window)
        lost = connection.wait_lost()
        self._connection = None
        connection.close()
        if lost.code == MESSAGE_TOO_BIG:  # a repeated request would get the same answer
            raise BridgeTooLarge(f"An answer of the window has more than {MAX_MESSAGE:,} bytes")

    def _reconnect(self, receiver: TransportReceiver) -> WebSocketConnection:
        """Reconnect with growing delays: no event reports that a server is up again."""
        from random import uniform  # imported here: this module is slow to load

        deadline, delay = time.monotonic() + self._reconnect_timeout, _FIRST_DELAY_SECONDS
        while not self._closing.wait(delay * uniform(0.5, 1.5)):  # noqa: S311
            try:
                return self._open(receiver)
            except BridgeUnavailable as error:
                if time.monotonic() > deadline:
                    raise BridgeClosed(
                        "The window was lost before it answered, and did not reconnect within "
                        f"{self._reconnect_timeout:g} seconds; the request may have taken effect"
                    ) from error
            delay = min(delay * 2, _MAX_DELAY_SECONDS)
        raise BridgeClosed("This bridge was closed")

    def _refused(self, status: int) -> BridgeRefused:
        return BridgeRefused(
            f"The window at {self._endpoint.address} rejects this run's token: it is wrong, "
            f"or its run has ended (HTTP {status}). Start the script from VS Code again",
            status=status,
        )

    def _unavailable(self, why: str) -> BridgeUnavailable:
        return BridgeUnavailable(
            f"The window at {self._endpoint.address} does not answer ({why}). It was probably "
            "closed or reloaded: start the script from VS Code again, or open a new terminal with "
            "'Bascule: Open Bridged Terminal'"
        )
