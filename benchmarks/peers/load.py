"""A server that costs little, and clients that keep a proxy before it busy.

Both speak as much HTTP as this needs: the proxy between them is what is measured.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections.abc import Callable
from typing import Any

SMALL = b"fifteen bytes.\n"
BULK_SIZE = 16 << 20
MESSAGE = 32
_PIECE = os.urandom(256 << 10)
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_FRAME = bytes([0x82, 0x80 | MESSAGE]) + bytes(4) + b"m" * MESSAGE
_ECHO = bytes([0x82, MESSAGE]) + b"m" * MESSAGE


class Server(asyncio.Protocol):
    """Answers `…/small` and `…/bulk`, and echoes on `…/socket`."""

    def __init__(self) -> None:
        self._transport: Any = None
        self._buffer = b""
        self._is_socket = False
        self._left = 0
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._is_socket:
            count, rest = divmod(len(self._buffer), len(_FRAME))
            self._buffer = self._buffer[len(self._buffer) - rest :]
            self._transport.write(_ECHO * count)
            return
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
            self._answer(head)

    def _answer(self, head: bytes) -> None:
        path = head.split(b" ", 2)[1]
        if path.endswith(b"/small"):
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n" + SMALL)
        elif path.endswith(b"/bulk"):
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % BULK_SIZE)
            self._left = BULK_SIZE
            self._pour()
        else:
            fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:])
            original = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
            key = next(v for k, v in original.items() if k.lower() == b"sec-websocket-key")
            assert fields[b"upgrade"] == b"websocket"
            accept = base64.b64encode(hashlib.sha1(key + _GUID).digest())
            self._transport.write(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                b"Upgrade: websocket\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n"
            )
            self._is_socket = True

    def _pour(self) -> None:
        while self._left and not self._is_paused:
            piece = _PIECE[: self._left]
            self._left -= len(piece)
            self._transport.write(piece)

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._pour()


class Client(asyncio.Protocol):
    """Asks for `request` again and again; each answer has `size` bytes behind its head."""

    def __init__(self, request: bytes, size: int, on_answer: Callable[[], None]) -> None:
        self._request = request
        self._size = size
        self._on_answer = on_answer
        self._head = b""
        self._left = -1
        self._transport: Any = None
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if self._left < 0:
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            if not self._head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 101")):
                raise RuntimeError(f"the proxy answered {self._head[:80]!r}")
            data, self._head = self._head[end + 4 :], b""
            self._left = self._size
        self._left -= len(data)
        if self._left <= 0:
            self._left = -1
            self._on_answer()
            self._transport.write(self._request)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        if not self.lost.done():
            self.lost.set_result(None)

    def close(self) -> None:
        self._transport.abort()


class SocketClient(Client):
    """Sends a message whenever the one before has come back."""

    def data_received(self, data: bytes) -> None:
        if self._left < 0:
            self._head += data
            if b"\r\n\r\n" not in self._head:
                return
            if not self._head.startswith(b"HTTP/1.1 101"):
                raise RuntimeError(f"the proxy answered {self._head[:80]!r}")
            self._left = len(_ECHO)
            self._transport.write(_FRAME)
            return
        self._left -= len(data)
        if self._left <= 0:
            self._left = len(_ECHO)
            self._on_answer()
            self._transport.write(_FRAME)


def get(path: str, port: int, *headers: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", *headers, "", ""]
    return "\r\n".join(lines).encode()


def handshake(path: str, port: int, *headers: str) -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    asked = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    return get(path, port, *headers, *asked, f"Sec-WebSocket-Key: {key}")
