"""An HTTP/1.1 client for one server, with connections that are reused.

httptools parses responses and asyncio does the I/O. This module adds the connection pool and one
rule that general clients do not have: a request that may have reached the server is never sent
again. docs/decisions/0003-http-client.md has the reasons.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote, urlencode, urlsplit

import httptools

from bascule.core.contracts import Closable
from bascule.core.errors import InvalidSetting, LinkError, MessageTooLarge, SandboxUnreachable

from .unix_socket import connect_to, socket_name

Body = bytes | AsyncIterable[bytes]

_PAUSE_ABOVE_BYTES: Final = 1 << 20
"""Unread bytes of a streamed reply above which the client stops reading its socket."""
_MAX_HEAD_BYTES: Final = 64 << 10
"""Maximum bytes of a response outside its body, mainly its head; chunk framing is extra."""
_MAX_FRAMING_RATIO: Final = 16
"""Maximum bytes of chunk framing per byte of the body. A chunk of one byte needs five."""
_SMALL_PIECE_BYTES: Final = 4 << 10
"""Pieces of a body below this size are joined: many small objects waste memory."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A complete response. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class StreamedReply:
    """A response whose body is read as it arrives."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self.status = connection.status
        self.headers: Mapping[str, str] = connection.headers

    @property
    def buffered(self) -> int:
        """Bytes that arrived and were not read yet; bounded."""
        return self._connection.buffered

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        while chunk := await self._connection.next_chunk():
            yield chunk

    async def read(self) -> bytes:
        """The whole body. Raises `MessageTooLarge` above the client's `max_reply`."""
        body, limit = bytearray(), self._connection.max_reply
        async for chunk in self.chunks():
            body += chunk
            if len(body) > limit:
                raise MessageTooLarge(f"The answer is larger than {limit} bytes")
        return bytes(body)


class HttpClient(Closable):
    """Sends requests to one server, many at a time, each on its own connection.

    If the server cannot be reached or the connection breaks, a request raises `unreachable`; the
    detail `sent` says whether the request may have reached the server. The client never repeats a
    request that was sent. Cancelling a request closes its connection, which the server can see.
    Proxy settings of the environment are ignored.

    With `socket_path` requests go to that Unix socket, which must not be a symlink, and `url` only
    provides the `Host` header and path prefix. With `socket_uid` the server must run as that user.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        connect_timeout: float = 10.0,
        keep_idle: float = 30.0,
        max_reply: int = 1 << 30,
        tls: ssl.SSLContext | None = None,
        socket_path: Path | None = None,
        socket_uid: int | None = None,
        name: str = "",
        unreachable: type[LinkError] = SandboxUnreachable,
    ) -> None:
        """`name`: the server's name in errors, if its path must not be shown."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise InvalidSetting(f"{url!r} is not an address: {error}", url=url) from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidSetting(f"{url!r} is not an http:// or https:// address", url=url)
        self.url = url.rstrip("/")
        self._host = parts.hostname
        self._port = port or (443 if parts.scheme == "https" else 80)
        self._base = parts.path.rstrip("/")
        self._tls = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
        self._common = _header_lines({"Host": parts.netloc.rpartition("@")[2], **(headers or {})})
        self._socket_path = socket_path
        self._name = name or (self.url if socket_path is None else socket_name(socket_path))
        self._socket_uid = socket_uid
        self._connect_timeout = connect_timeout
        self._keep_idle = keep_idle
        self._max_reply = max_reply
        self._unreachable = unreachable
        self._idle: list[_Connection] = []
        self._busy: set[_Connection] = set()
        self._buffered_bytes = _BufferedBytes(2 * max_reply)
        self._closed = False

    async def request(
        self,
        method: str,
        target: str,
        *,
        body: Body = b"",
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> HttpReply:
        """Send a request and return the complete response, whatever its status."""
        head = self._head(method, target, body, headers)
        connection = await self._acquire()
        try:
            async with self._response_timeout(timeout):
                await connection.send(head, body, stream=False)
                await connection.wait_complete()
            return HttpReply(connection.status, connection.headers, connection.take_body())
        finally:
            self._release(connection)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        target: str,
        *,
        body: Body = b"",
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[StreamedReply]:
        """Send a request and stream the body of the response; `timeout` covers the head only."""
        head = self._head(method, target, body, headers)
        connection = await self._acquire()
        try:
            async with self._response_timeout(timeout):
                await connection.send(head, body, stream=True)
                await connection.wait_head()
            yield StreamedReply(connection)
        finally:
            self._release(connection)

    async def wait_until_listening(self) -> None:
        """Wait until the server accepts connections; raises `unreachable` if it never does.

        No event reports that a server on another machine started to listen, so this retries with
        growing delays.
        """
        pause = 0.005
        deadline = asyncio.get_running_loop().time() + self._connect_timeout
        while True:
            try:
                self._release(await self._connect())
                return
            except self._unreachable:
                if asyncio.get_running_loop().time() + pause > deadline:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.5)

    async def aclose(self) -> None:
        self._closed = True
        for connection in (*self._idle, *self._busy):
            connection.close()
        self._idle.clear()

    # One request ------------------------------------------------------------------------

    @asynccontextmanager
    async def _response_timeout(self, timeout: float | None) -> AsyncIterator[None]:
        deadline = asyncio.timeout(timeout)
        try:
            async with deadline:
                yield
        except TimeoutError:
            if not deadline.expired():
                raise
            raise self._lost_error(f"did not answer within {timeout} seconds", sent=True) from None

    def _lost_error(self, problem: str, *, sent: bool) -> LinkError:
        return self._unreachable(f"{self._name} {problem}", url=self._name, sent=sent)

    def _head(
        self, method: str, target: str, body: Body, headers: Mapping[str, str] | None
    ) -> bytes:
        if not (target.isascii() and target.isprintable() and " " not in target):
            raise ValueError(f"{target!r} is not percent-encoded")
        length = (
            f"Content-Length: {len(body)}\r\n\r\n"
            if isinstance(body, bytes)
            else "Transfer-Encoding: chunked\r\n\r\n"
        )
        request_headers = _header_lines(headers) if headers else ""
        head = f"{method} {self._base}{target} HTTP/1.1\r\n{self._common}{request_headers}{length}"
        return head.encode("latin-1")

    # The pool ---------------------------------------------------------------------------

    async def _acquire(self) -> _Connection:
        connection = self._idle_connection() or await self._connect()
        self._busy.add(connection)
        return connection

    def _idle_connection(self) -> _Connection | None:
        """The most recently used idle connection. Skips connections that are closed, or idle for so
        long that the server may close them."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable and now - connection.idle_since < self._keep_idle:
                return connection
            connection.close()
        return None

    def _release(self, connection: _Connection) -> None:
        self._busy.discard(connection)
        # What is buffered is a body that the caller left unread, or that arrived as the caller was
        # cancelled. It must not become part of the next response.
        if self._closed or connection.buffered or not connection.is_reusable:
            connection.close()
        else:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)

    async def _connect(self) -> _Connection:
        if self._closed:
            raise self._lost_error("is no longer used: the client was closed", sent=False)
        try:
            async with asyncio.timeout(self._connect_timeout):
                transport, connection = await self._open_connection()
        except TimeoutError:
            raise self._lost_error(
                f"did not accept a connection within {self._connect_timeout:g} seconds", sent=False
            ) from None
        except ConnectionRefusedError as error:
            raise self._lost_error(
                "cannot be reached: nothing listens there", sent=False
            ) from error
        except FileNotFoundError as error:
            raise self._lost_error(
                "cannot be reached: there is no such socket", sent=False
            ) from error
        except OSError as error:
            reason = error.strerror or error  # `str(error)` may include the path
            raise self._lost_error(f"cannot be reached: {reason}", sent=False) from error
        if self._socket_path is None:
            _enable_keepalive(transport.get_extra_info("socket"))
        return connection

    async def _open_connection(self) -> tuple[asyncio.BaseTransport, _Connection]:
        loop = asyncio.get_running_loop()
        if self._socket_path is not None:
            sock = await connect_to(self._socket_path, uid=self._socket_uid)
            return await loop.create_unix_connection(self._new_connection, sock=sock)
        host = self._host
        if host.endswith(".localhost"):  # this machine, but many resolvers cannot resolve it
            host = "localhost"
        return await loop.create_connection(
            self._new_connection,
            host,
            self._port,
            ssl=self._tls,
            server_hostname=self._host if self._tls is not None else None,
        )

    def _new_connection(self) -> _Connection:
        return _Connection(
            lambda problem: self._lost_error(problem, sent=True),
            self._max_reply,
            self._buffered_bytes,
        )


class _BufferedBytes:
    """Counts the unread response bytes of all connections of a client, which have one common limit.
    So many connections need no more memory than a few."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.current = 0


class _Connection(asyncio.Protocol):
    """One connection: one request at a time, its response collected or streamed."""

    _transport: asyncio.Transport

    def __init__(
        self, lost: Callable[[str], Exception], max_reply: int, buffered_bytes: _BufferedBytes
    ) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.idle_since = 0.0
        self._lost_error = lost
        self.max_reply = max_reply
        self._buffered_bytes = buffered_bytes
        self._overhead_bytes = 0
        """Bytes of this response outside its body."""
        self._body_bytes = 0
        self._parser: Any = httptools.HttpResponseParser(self)
        self._chunks: deque[bytes | bytearray] = deque()
        self.buffered = 0
        self._is_streaming = False
        self._has_head = False
        self._is_complete = True
        self._is_kept_alive = True
        self._is_body_incomplete = False
        self._error: Exception | None = None
        self._changed: asyncio.Future[None] | None = None
        self._may_write: asyncio.Future[None] | None = None

    @property
    def is_reusable(self) -> bool:
        return (
            self._is_complete
            and self._is_kept_alive
            and not self._is_body_incomplete
            and self._error is None
        )

    def close(self) -> None:
        self._is_kept_alive = False
        self._transport.abort()
        self._chunks.clear()
        self._count_buffered(-self.buffered)

    # Sending ----------------------------------------------------------------------------

    async def send(self, head: bytes, body: Body, *, stream: bool) -> None:
        """Send a request. If the server answers early, the rest of a long body is not sent."""
        if self._error is not None:
            raise self._error
        self.status, self.headers = 0, {}
        self._is_streaming = stream
        self._has_head = self._is_complete = False
        self._overhead_bytes = self._body_bytes = 0
        if not isinstance(body, bytes):
            await self._send_chunks(head, body)
        elif len(body) < _PAUSE_ABOVE_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)

    async def _send_chunks(self, head: bytes, body: AsyncIterable[bytes]) -> None:
        self._transport.write(head)
        async for chunk in body:
            if self._has_head or self._error is not None:
                self._is_body_incomplete = True
                return
            if chunk:
                self._transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            if self._may_write is not None:
                await self._may_write
        self._transport.write(b"0\r\n\r\n")

    # Receiving --------------------------------------------------------------------------

    async def wait_head(self) -> None:
        while not self._has_head:
            await self._wait_for_change()

    async def wait_complete(self) -> None:
        while not self._is_complete:
            await self._wait_for_change()

    async def next_chunk(self) -> bytes:
        """The next piece of the body; empty at its end."""
        while not self._chunks:
            if self._is_complete:
                return b""
            await self._wait_for_change()
        chunk = bytes(self._chunks.popleft())
        self._count_buffered(-len(chunk))
        if self.buffered <= _PAUSE_ABOVE_BYTES:
            self._transport.resume_reading()  # also after the last piece, for the next response
        return chunk

    def take_body(self) -> bytes:
        body = bytes(self._chunks[0]) if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._count_buffered(-self.buffered)
        return body

    def _count_buffered(self, size: int) -> None:
        self.buffered += size
        self._buffered_bytes.current += size

    async def _wait_for_change(self) -> None:
        if self._error is not None:
            raise self._error
        self._changed = asyncio.get_running_loop().create_future()
        await self._changed

    def _notify(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    def _fail(self, error: Exception) -> None:
        self._error = self._error or error
        self._transport.abort()
        self._notify()

    # asyncio's callbacks ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._is_complete:
            self._fail(self._lost_error("sent unexpected bytes"))
            return
        self._overhead_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(self._lost_error(f"does not speak HTTP: {error}"))
            return
        if self._overhead_bytes > _MAX_HEAD_BYTES + _MAX_FRAMING_RATIO * self._body_bytes:
            self._fail(MessageTooLarge(f"An answer's head is larger than {_MAX_HEAD_BYTES} bytes"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_complete and self._ends_with_the_connection():
            self._is_complete = True
        reason = f"broke the connection: {exc}" if exc else "closed the connection"
        self._error = self._error or self._lost_error(reason)
        self._notify()
        self.resume_writing()  # wakes `_send_chunks`, which then sees the error

    def pause_writing(self) -> None:
        self._may_write = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._may_write is not None and not self._may_write.done():
            self._may_write.set_result(None)
        self._may_write = None

    def _ends_with_the_connection(self) -> bool:
        return self._has_head and not (
            "content-length" in self.headers or "transfer-encoding" in self.headers
        )

    # The parser's callbacks -------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self._has_head = True
        self._is_kept_alive = self._parser.should_keep_alive()
        if self._is_streaming:
            self._notify()

    def on_body(self, body: bytes) -> None:
        self._overhead_bytes -= len(body)
        self._body_bytes += len(body)
        self._keep_piece(body)
        self._count_buffered(len(body))
        if self._is_streaming:
            if self.buffered > _PAUSE_ABOVE_BYTES:
                self._transport.pause_reading()
            self._notify()
        elif self.buffered > self.max_reply:
            self._fail(MessageTooLarge(f"The answer is larger than {self.max_reply} bytes"))
        elif self._buffered_bytes.current > self._buffered_bytes.limit:
            self._fail(
                MessageTooLarge(
                    "All pending answers together are larger than "
                    f"{self._buffered_bytes.limit} bytes"
                )
            )

    def _keep_piece(self, body: bytes) -> None:
        if len(body) >= _SMALL_PIECE_BYTES or not self._chunks:
            self._chunks.append(body)
        elif isinstance(last := self._chunks[-1], bytearray):
            last += body
        else:
            self._chunks[-1] = bytearray(last) + body

    def on_message_complete(self) -> None:
        self._is_complete = self._error is None
        self._notify()


def target(path: str, /, **query: str | int | None) -> str:
    """A path and query for the request line; None parameters are left out."""
    parameters = {name: value for name, value in query.items() if value is not None}
    return quote(path) + ("?" + urlencode(parameters) if parameters else "")


def _header_lines(headers: Mapping[str, str]) -> str:
    for name, value in headers.items():
        if not (name + value).isprintable():
            raise InvalidSetting(f"{name!r} has a value that cannot be a header")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items())


def _enable_keepalive(sock: socket.socket | None) -> None:
    """Enable TCP keep-alive, so that a vanished peer is detected within two minutes."""
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)
