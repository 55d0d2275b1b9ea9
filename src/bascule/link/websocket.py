"""A WebSocket client for servers on this machine.

The thread that reads the socket delivers the messages. Any thread may send.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

MESSAGE_TOO_BIG = 1009
"""Close code for a message above the receiver's limit."""
_NO_CODE = 1006
"""Close code, by convention, of a connection that ended without one."""

OnText = Callable[[bytes], None]
"""Called with a whole message, as UTF-8."""


class WebSocketRefused(Exception):
    """The server answered the handshake with an HTTP status instead of an upgrade."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status


class WebSocketUnreachable(Exception):
    """No server answers at the address, or it is not a WebSocket server."""


class WebSocketLost(Exception):
    """The connection has ended; `code` is the WebSocket close code, 1006 for none."""

    def __init__(self, code: int) -> None:
        super().__init__(f"closed with code {code}")
        self.code = code


class WebSocketConnection:
    """An open WebSocket. Closing twice, or from another thread, is allowed.

    `on_text` is called with every message in the thread that reads the socket. Passing messages
    to another thread would take longer than everything else.
    """

    def __init__(self, connection: ClientConnection, opened: ExitStack) -> None:
        from websockets.exceptions import ConnectionClosed

        self._connection = connection
        self._opened = opened
        self._closed_exception = ConnectionClosed

    @classmethod
    def open(
        cls,
        url: str,
        *,
        headers: Mapping[str, str],
        subprotocol: str,
        limit: int,
        timeout: float,
        on_text: OnText,
    ) -> WebSocketConnection:
        """Connect. Raises `WebSocketRefused` or `WebSocketUnreachable`.

        Proxy settings of the environment are ignored, because the server is on this machine.
        """
        # Imported here: a script that never calls its window does not load the library.
        from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI
        from websockets.sync.client import connect
        from websockets.typing import Subprotocol

        opened = ExitStack()
        try:
            connection = opened.enter_context(
                connect(
                    url,
                    additional_headers=headers,
                    subprotocols=[Subprotocol(subprotocol)],
                    compression=None,
                    open_timeout=timeout,
                    close_timeout=0.5,
                    max_size=limit,
                    proxy=None,
                    create_connection=_connection_class(on_text),
                )
            )
        except InvalidStatus as error:
            raise WebSocketRefused(error.response.status_code) from error
        except (OSError, InvalidHandshake, InvalidURI, EOFError) as error:
            raise WebSocketUnreachable(str(error) or type(error).__name__) from error
        return cls(connection, opened)

    def send(self, text: str) -> None:
        """Send a message. Raises `WebSocketLost`."""
        try:
            self._connection.send(text)
        except self._closed_exception as error:
            raise _lost_error(error) from error

    def wait_lost(self) -> WebSocketLost:
        """Wait until the connection has ended; returns the reason."""
        self._connection.wait_closed()
        try:
            self._connection.recv()
        except self._closed_exception as error:
            return _lost_error(error)
        raise AssertionError("messages are never queued for `recv`")

    def close(self) -> None:
        self._opened.close()


def _connection_class(on_text: OnText) -> type[ClientConnection]:
    """The library's connection class, with messages passed to `on_text` instead of a queue."""
    from websockets.frames import Frame, Opcode
    from websockets.sync.client import ClientConnection

    data_opcodes = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)

    class CallbackConnection(ClientConnection):
        def process_event(self, event: Any) -> None:
            if not isinstance(event, Frame) or event.opcode not in data_opcodes:
                super().process_event(event)
            elif event.fin and event.opcode is not Opcode.CONT:
                on_text(bytes(event.data))
            else:
                self._gather(event)

        def _gather(self, frame: Frame) -> None:
            if frame.opcode is not Opcode.CONT:
                self._pieces: list[bytes] = []
            self._pieces.append(bytes(frame.data))
            if frame.fin:
                on_text(b"".join(self._pieces))

    return CallbackConnection


def _lost_error(error: Exception) -> WebSocketLost:
    for closed in (getattr(error, "sent", None), getattr(error, "rcvd", None)):
        if closed is not None:
            return WebSocketLost(closed.code)
    return WebSocketLost(_NO_CODE)
