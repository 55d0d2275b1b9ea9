"""One WebSocket to a server on this machine: texts out, texts in. The library's only home here.

Whoever opens one reads it in a thread of its own; anyone may send.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

MESSAGE_TOO_BIG = 1009


class LineRefused(Exception):
    """The server answered the handshake with an HTTP status instead of an upgrade."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status


class LineUnreachable(Exception):
    """Nobody answers at the address, or what answers is no WebSocket server."""


class LineLost(Exception):
    """The connection is over; `code` is that of WebSocket, 1006 for none."""

    def __init__(self, code: int) -> None:
        super().__init__(f"closed with code {code}")
        self.code = code


class Line:
    """An open WebSocket. Closing twice is fine, and so is closing from another thread."""

    def __init__(self, connection: ClientConnection, opened: ExitStack) -> None:
        self._connection = connection
        self._opened = opened

    @classmethod
    def open(
        cls,
        url: str,
        *,
        headers: Mapping[str, str],
        subprotocol: str,
        limit: int,
        timeout: float,
    ) -> Line:
        """Raises `LineRefused` or `LineUnreachable`.

        Proxies of the environment are never used: what is on this machine is not behind one.
        """
        # Not at the head: a script that never asks its window anything need not load it.
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
                )
            )
        except InvalidStatus as error:
            raise LineRefused(error.response.status_code) from error
        except (OSError, InvalidHandshake, InvalidURI, EOFError) as error:
            raise LineUnreachable(str(error) or type(error).__name__) from error
        return cls(connection, opened)

    def send(self, text: str) -> None:
        """Raises `LineLost`."""
        from websockets.exceptions import ConnectionClosed

        try:
            self._connection.send(text)
        except ConnectionClosed as error:
            raise _lost(error) from error

    def receive(self, timeout: float | None = None) -> str | bytes:
        """The next text. Raises `LineLost`, or `TimeoutError`."""
        from websockets.exceptions import ConnectionClosed

        try:
            return self._connection.recv(timeout)
        except ConnectionClosed as error:
            raise _lost(error) from error

    def __iter__(self) -> Iterator[str | bytes]:
        """Every text until the connection is over, which raises `LineLost`."""
        while True:
            yield self.receive()

    def close(self) -> None:
        self._opened.close()


def _lost(error: Exception) -> LineLost:
    for closed in (getattr(error, "sent", None), getattr(error, "rcvd", None)):
        if closed is not None:
            return LineLost(closed.code)
    return LineLost(1006)
