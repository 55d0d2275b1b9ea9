"""JSON messages, one per line, over a stream socket: the protocol with child processes."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import socket
from collections.abc import Callable, Mapping
from typing import Any, Self

from bascule.core.contracts import Closable

logger = logging.getLogger(__name__)

Message = Mapping[str, Any]
OnMessage = Callable[[Message], None]


class JsonLines(Closable):
    """One end of a connection. It ends when the peer closes it, dies or breaks the format."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, sock: socket.socket, *, limit: int) -> Self:
        """Take ownership of a connected socket. `limit`: maximum bytes of a received message."""
        return cls(*await asyncio.open_connection(sock=sock, limit=limit))

    @property
    def is_open(self) -> bool:
        """Whether `send` accepts messages. The peer may have closed its end already."""
        return not self._writer.is_closing()

    def send(self, message: Message) -> None:
        """Queue a message without waiting. Raises `BrokenPipeError` after the end."""
        if not self.is_open:
            raise BrokenPipeError("The connection is closed")
        self._writer.write(json.dumps(message).encode() + b"\n")

    async def drain(self) -> None:
        """Wait until the peer has read enough for the send buffer to have space."""
        await self._writer.drain()

    async def receive(self) -> Message | None:
        """Wait for the next message; None at the end of the connection."""
        try:
            line = await self._reader.readline()
            # A peer that is killed while it writes leaves an incomplete line.
            message: Message | None = json.loads(line) if line.endswith(b"\n") else None
        except ConnectionError as error:
            logger.debug("a connection of JSON lines failed: %s", error)
            message = None
        except ValueError as error:
            # Longer than the limit, or not JSON: nothing after it can be trusted.
            logger.warning("closing a connection of JSON lines: %s", error)
            message = None
        if message is None:
            self._writer.close()
        return message

    async def aclose(self) -> None:
        self._writer.close()


class JsonLineRequests(Closable):
    """Sends requests over a connection that it reads and closes, and matches answers by `id`.

    Many requests may be pending at once. Messages with the `id` of a pending request that are not
    its answer (`is_answer`) go to that request's `on_progress`. Messages without an `id` go to
    `on_event`. When the connection ends, pending and later requests raise `lost()`.
    """

    def __init__(
        self,
        lines: JsonLines,
        *,
        lost: Callable[[], Exception],
        on_event: OnMessage | None = None,
        is_answer: Callable[[Message], bool] = lambda _: True,
    ) -> None:
        self._lines = lines
        self._lost = lost
        self._on_event = on_event
        self._is_answer = is_answer
        self._numbers = itertools.count(1)
        self._pending: dict[int, PendingRequest] = {}
        self._reading = asyncio.create_task(self._read())

    @property
    def is_open(self) -> bool:
        return self._lines.is_open and not self._reading.done()

    def begin(self, message: Message, *, on_progress: OnMessage | None = None) -> PendingRequest:
        """Send a request. Await its `answer` inside a `with` block, which ends the request."""
        if not self.is_open:
            raise self._lost()
        number = next(self._numbers)
        self._lines.send({"id": number, **message})
        request = PendingRequest(self._lines, number, self._pending, self._lost, on_progress)
        self._pending[number] = request
        return request

    async def request(self, message: Message) -> Message:
        """Send a request and wait for its answer. If cancelled, the answer is ignored."""
        with self.begin(message) as request:
            return await request.answer()

    async def wait_closed(self) -> None:
        """Wait until the connection has ended and every message before that was handled."""
        await asyncio.wait([self._reading])

    async def aclose(self) -> None:
        await self._lines.aclose()
        self._reading.cancel()
        await asyncio.wait([self._reading])

    async def _read(self) -> None:
        try:
            while (message := await self._lines.receive()) is not None:
                self._handle(message)
        except Exception:
            logger.exception("a message could not be handled")
        finally:
            await self._lines.aclose()
            for request in self._pending.values():
                request.resolve(None)

    def _handle(self, message: Message) -> None:
        if "id" not in message:
            if self._on_event is not None:
                self._on_event(message)
        elif (request := self._pending.get(message["id"])) is None:
            return  # its caller was cancelled
        elif self._is_answer(message):
            request.resolve(message)
        elif request.on_progress is not None:
            request.on_progress(message)


class PendingRequest:
    """A request that was sent, until its `with` block ends."""

    def __init__(
        self,
        lines: JsonLines,
        number: int,
        pending: dict[int, PendingRequest],
        lost: Callable[[], Exception],
        on_progress: OnMessage | None,
    ) -> None:
        self.on_progress = on_progress
        self._lines = lines
        self._number = number
        self._pending = pending
        self._lost = lost
        self._answer: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        del self._pending[self._number]

    async def answer(self) -> Message:
        answer = await asyncio.shield(self._answer)
        if answer is None:
            raise self._lost()
        return answer

    def cancel(self, message: Message) -> None:
        """Send `message` to cancel the request, unless the peer has answered it."""
        if not self._answer.done() and self._lines.is_open:
            self._lines.send({"id": self._number, **message})

    async def settled(self) -> None:
        """Wait until the peer has answered or the connection has ended."""
        await asyncio.wait([self._answer])

    def resolve(self, answer: Message | None) -> None:
        """Set the answer; None: the connection has ended."""
        if not self._answer.done():
            self._answer.set_result(answer)
