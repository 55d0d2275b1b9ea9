"""Serves the debug adapter protocol to one editor: requests in, responses and events out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final

from bascule.core.errors import BasculeError, InvalidRequest, NotSupported
from bascule.wire.dap import Decoder, Message, encode

logger = logging.getLogger(__name__)

Body = dict[str, Any]
Handler = Callable[[Mapping[str, Any]], Awaitable[Body | None]]

_REQUIRED: Final = object()


class DapServer:
    """Answers each request in its own task, started in the order of arrival.

    Requests do not wait for each other. So the code of a net can call the editor while another
    request waits for that code.
    """

    def __init__(self, write: Callable[[bytes], None]) -> None:
        """`write` sends one whole message at each call."""
        self._write = write
        self._seq = 0
        self._tasks: asyncio.TaskGroup | None = None
        self._cancellable: set[asyncio.Task[None]] = set()
        self._closed = asyncio.Event()

    async def serve(
        self,
        reader: asyncio.StreamReader,
        handlers: Mapping[str, Handler],
        *,
        on_close: Callable[[], None],
    ) -> None:
        """Serve until the editor disconnects or exits, then call `on_close` and cancel tasks.

        Returns when the tasks of `run_to_end` have ended too.
        """
        async with asyncio.TaskGroup() as self._tasks:
            self.start(self._read(reader, handlers))
            await self._closed.wait()
            on_close()
            for task in tuple(self._cancellable):
                task.cancel()

    def event(self, event: str, body: Mapping[str, Any] | None = None) -> None:
        message: Message = {"type": "event", "event": event}
        if body is not None:
            message["body"] = dict(body)
        self._send(message)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in a task that is cancelled when the session is over."""
        task = self.run_to_end(work)
        self._cancellable.add(task)
        task.add_done_callback(self._cancellable.discard)

    def run_to_end(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `work` in a task that is not cancelled."""
        assert self._tasks is not None, "serve() is not running"
        return self._tasks.create_task(work)

    async def _read(self, reader: asyncio.StreamReader, handlers: Mapping[str, Handler]) -> None:
        decoder = Decoder()
        try:
            while data := await reader.read(1 << 16):
                for message in decoder.feed(data):
                    if message.get("type") == "request":
                        self.start(self._answer(message, handlers))
        finally:
            self._closed.set()

    async def _answer(self, request: Message, handlers: Mapping[str, Handler]) -> None:
        command, arguments = str(request.get("command")), request.get("arguments") or {}
        answer: Message = {
            "type": "response",
            "request_seq": request.get("seq", 0),
            "command": command,
            "success": True,
        }
        try:
            handler = handlers.get(command)
            if handler is None:
                raise NotSupported(f"This debug adapter has no request '{command}'")
            body = await handler(arguments)
            if body is not None:
                answer["body"] = body
        except BasculeError as error:
            answer |= _error_response(error.message)
        except Exception as error:
            logger.exception("the request %s failed", command)
            answer |= _error_response(f"{type(error).__name__}: {error}")
        self._send(answer)
        if command == "initialize" and answer["success"]:
            self.event("initialized")
        elif command == "disconnect":
            self._closed.set()

    def _send(self, message: Message) -> None:
        self._seq += 1
        self._write(encode({"seq": self._seq, **message}))


def number_in(arguments: Mapping[str, Any], name: str, *, default: Any = _REQUIRED) -> int:
    value = arguments.get(name)
    if value is None and default is not _REQUIRED:
        return int(default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequest(f"'{name}' in the request must be an integer, but is {value!r}")
    return value


def text_in(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        raise InvalidRequest(f"'{name}' in the request must be a string, but is {value!r}")
    return value


def _error_response(message: str) -> Body:
    return {
        "success": False,
        "message": message,
        "body": {"error": {"id": 1, "format": message, "showUser": False}},
    }
