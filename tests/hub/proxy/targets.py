"""Servers to stand behind the proxy: a well-behaved one on uvicorn's protocol, and raw ones."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs

from bascule.hub import HubSettings
from bascule.hub.proxy import MemoryRoutes, SessionEndpoint, UpstreamServer
from bascule.serving.asgi import Receive, Scope, Send
from bascule.serving.listener import Listener
from tests.hub.serving import RunningHub

SESSION = "abcdefgh12345678"
OTHER = "zzzzzzzz12345678"
PIECE = b"0123456789abcdef" * 4096
VSCODE = SessionEndpoint("vscode", SESSION)
APP = SessionEndpoint("apps", SESSION, 0)


class Echo:
    """An ASGI app that tells what it was asked, and does some things that are asked of it."""

    def __init__(self) -> None:
        self.taken = 0
        self.requests = 0
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.has_left = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.requests += 1
        if scope["type"] == "websocket":
            await self._talk(scope, receive, send)
            return
        path = scope["path"].rpartition("/")[2]
        query = parse_qs(scope["query_string"].decode())
        if path == "bytes":
            await self._pour(int(query["n"][0]), send, is_sized="sized" in query)
        elif path == "events":
            await self._tell(receive, send)
        elif path == "headers":
            pairs = [(k.encode(), v.encode()) for k, v in json.loads(query["set"][0])]
            await _answer(send, b"ok", pairs, status=int(query.get("status", ["200"])[0]))
        else:
            await self._echo(scope, receive, send)

    async def _echo(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = 0
        while True:
            await self.is_open.wait()
            message = await receive()
            if message["type"] != "http.request":
                self.has_left.set()
                return
            size += len(message["body"])
            self.taken += len(message["body"])
            if not message["more_body"]:
                break
        told = {
            "method": scope["method"],
            "path": scope["raw_path"].decode(),
            "query": scope["query_string"].decode(),
            "headers": [(k.decode(), v.decode()) for k, v in scope["headers"]],
            "size": size,
        }
        await _answer(send, json.dumps(told).encode(), [(b"content-type", b"application/json")])

    async def _pour(self, size: int, send: Send, *, is_sized: bool) -> None:
        headers = [(b"content-length", str(size).encode())] if is_sized else []
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        while size:
            piece = PIECE[:size]
            size -= len(piece)
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            self.taken += len(piece)
        await send({"type": "http.response.body", "body": b""})

    async def _tell(self, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await receive()  # the empty body
        for number in range(3):
            self.is_open.clear()
            text = f"data: {number}\n\n".encode()
            await send({"type": "http.response.body", "body": text, "more_body": True})
            await self.is_open.wait()
        while (await receive())["type"] != "http.disconnect":
            pass
        self.has_left.set()

    async def _talk(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        headers = {k.decode(): v.decode() for k, v in scope["headers"]}
        if scope["path"].endswith("refused"):
            await send({"type": "websocket.close", "code": 1000})
            return
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": json.dumps([scope["path"], headers])})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "bytes": message["bytes"]})
        self.has_left.set()


async def _answer(
    send: Send, body: bytes, headers: list[tuple[bytes, bytes]], *, status: int = 200
) -> None:
    size = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, size]})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def echo_target(path: Path | None = None) -> AsyncIterator[tuple[UpstreamServer, Echo]]:
    """A server on a socket at `path`, or on a port."""
    app = Echo()
    if path is None:
        sock = socket.create_server(("127.0.0.1", 0))
        target = UpstreamServer(port=sock.getsockname()[1])
    else:
        sock = socket.socket(socket.AF_UNIX)
        path.parent.mkdir(exist_ok=True)
        sock.bind(str(path))
        target = UpstreamServer(socket=path)
    sock.setblocking(False)
    listener = Listener(app, HubSettings(admin_token="x", stop_grace=0.01), max_frame=32 << 20)
    await listener.start(sock)
    try:
        yield target, app
    finally:
        await listener.stop()
        sock.close()


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def raw_target(handler: Handler) -> AsyncIterator[UpstreamServer]:
    """A server that does with its connections what it likes."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield UpstreamServer(port=server.sockets[0].getsockname()[1])
    finally:
        server.close()


def answering(*answers: bytes) -> Handler:
    """Answers one request after the other with these bytes, then waits to be left."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
        await reader.read()

    return handle


class ProxyHub(RunningHub):
    """A hub with routes, and clients of its port."""

    def __init__(self, **settings: Any) -> None:
        self.routes = MemoryRoutes()
        super().__init__(routes=self.routes, **settings)

    @property
    def page(self) -> str:
        """The host of the hub's page on this machine, as far as requests here name a port."""
        return self.hub.proxy.access_control.origins.local_name

    def open(self, place: SessionEndpoint, target: UpstreamServer, *, owner: str = "admin") -> None:
        self.routes.set(place, target, owner=owner)

    @asynccontextmanager
    async def echo(
        self,
        place: SessionEndpoint = VSCODE,
        *,
        owner: str = "admin",
        path: Path | None = None,
        **more: Any,
    ) -> AsyncIterator[Echo]:
        async with echo_target(path) as (target, app):
            values = {"socket": target.socket, "port": target.port, **more}
            self.open(place, UpstreamServer(**values), owner=owner)
            yield app

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    @asynccontextmanager
    async def raw(self) -> AsyncIterator[Raw]:
        async with Raw(self.port) as raw:
            yield raw


class Raw:
    """A client that sends bytes."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.writer.transport.abort()

    async def ask(self, data: bytes, *, is_head: bool = False) -> tuple[int, dict[str, str], bytes]:
        self.writer.write(data)
        return await self.answer(is_head=is_head)

    async def answer(self, *, is_head: bool = False) -> tuple[int, dict[str, str], bytes]:
        """The next answer: status, headers (the last of each name), body."""
        async with asyncio.timeout(10):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head[:-4].split("\r\n")
            headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines)}
            body = b""
            if headers.get("transfer-encoding") == "chunked":
                while size := int(await self.reader.readuntil(b"\r\n"), 16):
                    body += (await self.reader.readexactly(size + 2))[:-2]
                await self.reader.readexactly(2)
            elif not is_head:
                body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return int(first.split()[1]), headers, body

    async def is_closed(self) -> bool:
        async with asyncio.timeout(10):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True


def request(
    target: str, *headers: str, method: str = "GET", host: str = "127.0.0.1", token: str = ""
) -> bytes:
    """The head of a request, with a token unless it is empty."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *headers]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
