"""JSON-RPC with `Content-Length` headers: the protocol with language servers."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Self

from bascule.core.contracts import Closable

logger = logging.getLogger(__name__)

Params = Mapping[str, Any]
OnRequest = Callable[[str, Any], Awaitable[Any]]
OnNotification = Callable[[str, Any], None]

MAX_MESSAGE: Final = 256 << 20
"""Maximum bytes of a message from a server."""
_MAX_ERROR: Final = 200
"""Maximum characters of an unexpected error in an answer."""
METHOD_NOT_FOUND: Final = -32601
INTERNAL_ERROR: Final = -32603
CONTENT_MODIFIED: Final = -32801
SERVER_CANCELLED: Final = -32802


class RpcFailed(Exception):
    """The peer answered a request with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class JsonRpc(Closable):
    """One connection. Requests are sent in the order of the calls; answers arrive in any order.

    `on_request` answers requests of the peer, and `on_notification` takes its notifications, in
    their order. Unexpected errors of both are logged and do not end the connection. When the
    connection ends, pending and later requests raise `lost()`.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        on_request: OnRequest,
        on_notification: OnNotification,
        lost: Callable[[], Exception],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._on_request = on_request
        self._on_notification = on_notification
        self._lost = lost
        self._numbers = itertools.count(1)
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(
        cls,
        sock: socket.socket,
        *,
        on_request: OnRequest,
        on_notification: OnNotification,
        lost: Callable[[], Exception],
    ) -> Self:
        """Take ownership of a connected socket."""
        reader, writer = await asyncio.open_connection(sock=sock)
        return cls(
            reader, writer, on_request=on_request, on_notification=on_notification, lost=lost
        )

    @property
    def is_open(self) -> bool:
        return not self._reading.done()

    async def request(self, method: str, params: Params | None = None) -> Any:
        """Send a request and return its result. Raises `RpcFailed`.

        If the caller is cancelled, the request is cancelled at the peer.
        """
        if not self.is_open:
            raise self._lost()
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[number] = answer
        try:
            self._send({"id": number, "method": method, "params": params})
            return await answer
        except asyncio.CancelledError:
            self.notify("$/cancelRequest", {"id": number})
            raise
        finally:
            del self._pending[number]

    def notify(self, method: str, params: Params | None = None) -> None:
        """Send a notification; no effect after the connection has ended."""
        if self.is_open:
            self._send({"method": method, "params": params})

    async def aclose(self) -> None:
        self._writer.close()
        for task in (self._reading, *self._answering):
            task.cancel()
        await asyncio.wait([self._reading, *self._answering])

    def _send(self, message: Mapping[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        # Not drained: the peer always reads, and a request waits for its answer anyway.
        self._writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    async def _read(self) -> None:
        try:
            while True:
                self._handle(await self._receive())
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the peer has ended
        except Exception:
            logger.exception("closing a connection to a language server")
        finally:
            self._writer.close()
            for answer in self._pending.values():
                if not answer.done():
                    answer.set_exception(self._lost())

    async def _receive(self) -> Mapping[str, Any]:
        length = -1
        while line := (await self._reader.readuntil(b"\n")).strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        if not 0 <= length <= MAX_MESSAGE:
            raise ValueError(f"a message of {length} bytes; at most {MAX_MESSAGE} are read")
        message = json.loads(await self._reader.readexactly(length))
        if not isinstance(message, dict):
            raise ValueError("a message is not a JSON object")
        return message

    def _handle(self, message: Mapping[str, Any]) -> None:
        method = message.get("method")
        if method is None:
            self._resolve(message)
        elif "id" in message:
            task = asyncio.create_task(self._answer(message["id"], method, message.get("params")))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        else:
            self._take(method, message.get("params"))

    def _take(self, method: str, params: Any) -> None:
        try:
            self._on_notification(method, params)
        except Exception:  # one bad notification must not end the connection
            logger.exception("ignoring the notification %.200r of a language server", method)

    def _resolve(self, message: Mapping[str, Any]) -> None:
        answer = self._pending.get(message.get("id", 0))
        if answer is None or answer.done():
            return  # its caller was cancelled
        if error := message.get("error"):
            answer.set_exception(RpcFailed(error.get("code", 0), error.get("message", "")))
        else:
            answer.set_result(message.get("result"))

    async def _answer(self, number: int | str, method: str, params: Any) -> None:
        reply: dict[str, Any]
        try:
            reply = {"result": await self._on_request(method, params)}
        except RpcFailed as error:
            reply = {"error": {"code": error.code, "message": error.message}}
        except Exception as error:  # without an answer the server would wait forever
            logger.exception("answering the request %.200r of a language server", method)
            reply = {"error": {"code": INTERNAL_ERROR, "message": repr(error)[:_MAX_ERROR]}}
        if self.is_open:
            self._send({"id": number, **reply})
