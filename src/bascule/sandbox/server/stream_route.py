"""`/stream`: live output of shells, as server-sent events or over a WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute, Route, WebSocketRoute

from bascule.sandbox.shell.shells import Shells
from bascule.serving.asgi import Receive, Scope, Send
from bascule.serving.connection import CONNECTION
from bascule.wire import to_json

from .requests import number
from .sse import encoded, send_events
from .stream import Watch, encode_frame, name_of


class StreamRoute:
    """Serves one `Watch` per connection. It ends with its connection; `finish` ends all."""

    def __init__(self, shells: Shells, *, lag: int) -> None:
        self._shells = shells
        self._lag = lag
        self._watches: set[Watch] = set()

    def table(self) -> list[BaseRoute]:
        # For a callable object, unlike for a function, Starlette passes the raw ASGI arguments.
        return [Route("/stream", self, methods=["GET"]), WebSocketRoute("/stream", self)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = HTTPConnection(scope)
        shell, start = query.query_params.get("shell"), number(query, "start")
        watch = Watch(self._shells, lag=self._lag, shell=shell, start=start)
        with watch.open(), self._ended_by_finish(watch):
            if scope["type"] == "websocket":
                await _over_websocket(watch, receive, send)
            else:
                events = encoded(watch.items)
                await send_events(scope[CONNECTION], send, events, finish=watch.finish)

    def finish(self) -> None:
        for watch in self._watches:
            watch.finish()

    @contextmanager
    def _ended_by_finish(self, watch: Watch) -> Iterator[None]:
        self._watches.add(watch)
        try:
            yield
        finally:
            self._watches.discard(watch)


async def _over_websocket(watch: Watch, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    async with asyncio.TaskGroup() as tasks:
        leaving = tasks.create_task(_wait_for_the_end(watch, receive))
        async for frame in watch.items():
            if frame is not None:
                message = {"event": name_of(frame), **encode_frame(frame)}
                await send({"type": "websocket.send", "text": to_json(message).decode()})
        if not leaving.done():
            leaving.cancel()
            await send({"type": "websocket.close", "code": 1001, "reason": "the sandbox stops"})


async def _wait_for_the_end(watch: Watch, receive: Receive) -> None:
    """Ignore the client's messages; return when it disconnects."""
    while (await receive())["type"] != "websocket.disconnect":
        pass
    watch.finish()
