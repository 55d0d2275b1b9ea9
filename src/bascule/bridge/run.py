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

_OPEN: Final = 0.9
"""Seconds to reach a window; it is on this machine."""
_FIRST_DELAY: Final = 0.05
_MAX_DELAY: Final = 5.0
_RECONNECT_TIMEOUT: Final = 30.0
"""Seconds to try to reconnect to a lost window."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a run's window listens. Its `repr` does not show the token."""

    address: str
    """A complete `ws://` URL."""
    token: str = field(repr=False)
    session: str = ""


class _Reading:
    """Passes the first message of a connection to the handshake, and the others to the receiver."""

    def __init__(self, receiver: TransportReceiver) -> None:
        self.first: SimpleQueue[Message] = SimpleQueue()
        self._receiver = receiver
        self._is_greeted = False

    def on_text(self, text: bytes) -> None:
        try:
            message = decode(text)
        except BridgeProtocol as error:
            logger.warning("the window sent an invalid message: %s", error.message)
            return
        if self._is_greeted:
            self._receiver.received(message)
        else:
            self._is_greeted = True
            self.first.put(message)


class RunTransport:
    """Keeps one WebSocket to `endpoint`, in a thread of its own."""

    kind = "run"

    def __init__(self, endpoint: Endpoint, *, patience: float = _RECONNECT_TIMEOUT) -> None:
        self._endpoint = endpoint
        self._patience = patience
        self._line: WebSocketConnection | None = None
        self._peer = ""
        """The window's id until it reloads; a reloaded window remembers no request."""
        self._remembers = False
        self._client = os.urandom(8).hex()
        """Lets the window recognize this client when it reconnects."""
        self._closing = threading.Event()

    def start(self, receiver: TransportReceiver) -> None:
        threading.Thread(
            target=self._stay_connected, args=(receiver,), name="vscode-bridge", daemon=True
        ).start()

    def send(self, message: Message) -> None:
        text = encode(message)
        line = self._line
        if line is None:
            return
        try:
            line.send(text)
        except WebSocketLost:
            return  # the reading thread notices this too, and reports it

    def close(self) -> None:
        self._closing.set()
        if (line := self._line) is not None:
            line.close()

    # In the thread ------------------------------------------------------------------------

    def _stay_connected(self, receiver: TransportReceiver) -> None:
        try:
            self._line = self._open(receiver)
            while True:
                self._serve(self._line, receiver)
                if self._closing.is_set():
                    return
                receiver.lost()
                self._line = self._open_again(receiver)
        except BridgeError as error:
            self._line = None
            receiver.ended(error)

    def _open(self, receiver: TransportReceiver) -> WebSocketConnection:
        """Connect and exchange greetings. Raises `BridgeUnavailable`, `BridgeRefused`, or
        `BridgeProtocol` if the server is not a bridge."""
        reading = _Reading(receiver)
        try:
            line = WebSocketConnection.open(
                self._endpoint.address,
                headers={"Authorization": f"Bearer {self._endpoint.token}"},
                subprotocol=SUBPROTOCOL,
                limit=MAX_MESSAGE,
                timeout=_OPEN,
                on_text=reading.on_text,
            )
        except WebSocketRefused as error:
            raise self._refused(error.status) from error
        except WebSocketUnreachable as error:
            raise self._unavailable(str(error)) from error
        try:
            self._exchange_hello(line, reading.first)
        except BaseException:
            line.close()
            raise
        return line

    def _exchange_hello(self, line: WebSocketConnection, first: SimpleQueue[Message]) -> None:
        about = {
            "id": self._client,
            "client": f"vscode_bridge/{bascule.__version__}",
            "pid": os.getpid(),
            "session": self._endpoint.session,
        }
        try:
            line.send(encode(Hello(PROTOCOL, about)))
            hello = first.get(timeout=_OPEN)
        except (WebSocketLost, Empty) as error:
            raise self._unavailable("it does not greet") from error
        if not isinstance(hello, Hello):
            raise BridgeProtocol(f"The server at {self._endpoint.address} is not a bridge")
        if hello.protocol != PROTOCOL:
            raise BridgeProtocol(
                f"The window speaks version {hello.protocol} of the bridge and this script version "
                f"{PROTOCOL}; update the older of the two"
            )
        self._remembers = bool(self._peer) and hello.about.get("instance") == self._peer
        self._peer = str(hello.about.get("instance", ""))

    def _serve(self, line: WebSocketConnection, receiver: TransportReceiver) -> None:
        """Report the connection, and wait until it has ended."""
        receiver.connected(remembers=self._remembers)
        lost = line.wait_lost()
        self._line = None
        line.close()
        if lost.code == MESSAGE_TOO_BIG:  # a repeated request would get the same answer
            raise BridgeTooLarge(f"An answer of the window has more than {MAX_MESSAGE:,} bytes")

    def _open_again(self, receiver: TransportReceiver) -> WebSocketConnection:
        """Reconnect with growing delays: no event reports that a server is up again."""
        from random import uniform  # imported here: it is slow to load

        deadline, delay = time.monotonic() + self._patience, _FIRST_DELAY
        while not self._closing.wait(delay * uniform(0.5, 1.5)):  # noqa: S311
            try:
                return self._open(receiver)
            except BridgeUnavailable as error:
                if time.monotonic() > deadline:
                    raise BridgeClosed(
                        "The window was lost before it answered, and did not come back within "
                        f"{self._patience:g} seconds; the request may have taken effect"
                    ) from error
            delay = min(delay * 2, _MAX_DELAY)
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
