"""A window's end of a run bridge in this process: a real WebSocket server before a `FakeEditor`."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import Server, ServerConnection, serve

from bascule.bridge import Endpoint
from bascule.testing.bridge import FakeEditor
from bascule.wire.bridge import MAX_MESSAGE, PROTOCOL, SUBPROTOCOL, Hello, Message, decode, encode

TOKEN = "a-token-for-one-run"


class BridgeServer:
    """`stop` and `start` again keep the port; `drop` breaks what is connected."""

    def __init__(self, editor: FakeEditor | None = None) -> None:
        self.editor = editor or FakeEditor()
        self.tokens = {TOKEN}
        self.instance = str(uuid.uuid4())
        self.connections: list[ServerConnection] = []
        self.connected = threading.Semaphore(0)
        self.headers: list[Headers] = []
        self.paths: list[str] = []
        self.on_connection: Callable[[ServerConnection], None] | None = None
        """Speaks in place of the server, once it has greeted."""
        self.protocol = PROTOCOL
        self._port = 0
        self._server: Server

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(f"ws://127.0.0.1:{self._port}/", TOKEN, "session-1")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        self._server = serve(
            self._serve,
            "127.0.0.1",
            self._port,
            process_request=self._admit,
            subprotocols=[SUBPROTOCOL],  # type: ignore[list-item]  # a new type of text
            compression=None,
            max_size=MAX_MESSAGE + 1024,
        )
        self._port = self._server.socket.getsockname()[1]
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self.drop()

    def drop(self) -> None:
        """Without a word."""
        for connection in self.connections:
            connection.socket.close() if connection.socket.fileno() < 0 else _reset(connection)
        self.connections.clear()

    def _admit(self, _: ServerConnection, request: Request) -> Response | None:
        self.headers.append(request.headers)
        self.paths.append(request.path)
        scheme, _sep, token = request.headers.get("Authorization", "").partition(" ")
        if scheme == "Bearer" and token in self.tokens:
            return None
        return Response(401, "Unauthorized", Headers({"Content-Length": "0"}), b"")

    def _serve(self, connection: ServerConnection) -> None:
        def reply(message: Message) -> None:
            try:
                connection.send(encode(message))
            except ConnectionClosed:
                return  # the script comes back for it

        try:
            hello = decode(connection.recv())
            assert isinstance(hello, Hello)
            connection.send(encode(Hello(self.protocol, {"instance": self.instance})))
            self.connections.append(connection)
            if self.on_connection is not None:
                self.on_connection(connection)
            detach = self.editor.attach(reply)
            self.connected.release()
            try:
                for text in connection:
                    self.editor.handle(decode(text), reply)
            finally:
                detach()
        except ConnectionClosed:
            return


def _reset(connection: Any) -> None:
    import socket

    try:
        connection.socket.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the other end was first
