"""`/session/terminals/…`: open a terminal, follow its output, type into it."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from bascule.core.contracts import OutputProgress
from bascule.core.errors import InvalidRequest
from bascule.sandbox.server.requests import json_body, json_response, number
from bascule.sandbox.server.sse import Events, encoded, send_events
from bascule.sandbox.server.sse import event as sse_event
from bascule.sandbox.server.stream import Backlog
from bascule.serving.asgi import Receive, Scope, Send
from bascule.serving.connection import CONNECTION
from bascule.wire import to_json

from .terminals import SessionTerminal, SessionTerminals

_MAX_BACKLOG: Final = 4 << 20
"""Maximum bytes of output that wait for a slow client."""


class TerminalRoutes:
    def __init__(self, terminals: SessionTerminals) -> None:
        self._terminals = terminals
        self._backlogs: set[Backlog] = set()

    def table(self) -> list[BaseRoute]:
        path = "/session/terminals/{name}"
        return [
            Route(path, self.open, methods=["POST"]),
            Route(path, self.end, methods=["DELETE"]),
            Route(f"{path}/keys", self.type, methods=["POST"]),
            Route(f"{path}/output", _Output(self), methods=["GET"]),
        ]

    def finish(self) -> None:
        for backlog in tuple(self._backlogs):
            backlog.finish()

    async def open(self, request: Request) -> Response:
        body = await _body(request)
        columns, rows = _count(body, "columns", 80), _count(body, "rows", 24)
        terminal = await self._terminals.open(_name(request), columns=columns, rows=rows)
        start, _ = terminal.output_from(0)
        return json_response({"name": terminal.name, "start": start, "end": terminal.end})

    async def type(self, request: Request) -> Response:
        """Type `data`, which is in Base64; `columns` and `rows` resize the terminal."""
        terminal, body = self._terminals.get(_name(request)), await _body(request)
        if "columns" in body:
            await self._terminals.open(
                terminal.name, columns=_count(body, "columns", 80), rows=_count(body, "rows", 24)
            )
        try:
            terminal.type(base64.b64decode(str(body.get("data", "")), validate=True))
        except binascii.Error as error:
            raise InvalidRequest(f"`data` is not Base64: {error}") from error
        return json_response({})

    async def end(self, request: Request) -> Response:
        await self._terminals.end(_name(request))
        return json_response({})

    async def send_output(
        self, terminal: SessionTerminal, start: int, scope: Scope, send: Send
    ) -> None:
        backlog = Backlog(_MAX_BACKLOG)

        def take(offset: int, data: bytes) -> None:
            if data:
                backlog.take(OutputProgress(terminal.name, offset, data))
            else:
                backlog.finish()

        kept_start, kept_output = terminal.output_from(start)
        if kept_output:
            take(kept_start, kept_output)
        unsubscribe = terminal.subscribe(take)
        if terminal.is_over:
            backlog.finish()
        self._backlogs.add(backlog)
        try:
            events = _output_and_end(terminal, backlog)
            await send_events(scope[CONNECTION], send, events, finish=backlog.finish)
        finally:
            unsubscribe()
            self._backlogs.discard(backlog)

    def get(self, name: str) -> SessionTerminal:
        return self._terminals.get(name)


class _Output:
    """An ASGI app: Starlette passes ASGI through unchanged only to an object, not to a function."""

    def __init__(self, routes: TerminalRoutes) -> None:
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        terminal = self._routes.get(_name(request))
        await self._routes.send_output(terminal, number(request, "start") or 0, scope, send)


async def _output_and_end(terminal: SessionTerminal, backlog: Backlog) -> Events:
    async for event in encoded(backlog.items):
        yield event
    if terminal.is_over:
        yield sse_event("ended", to_json({"end": terminal.end}))


def _name(request: Request) -> str:
    name: str = request.path_params["name"]
    return name


async def _body(request: Request) -> dict[str, Any]:
    body = await json_body(request)
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be an object")
    return body


def _count(body: dict[str, Any], name: str, default: int) -> int:
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequest(f"`{name}` must be an integer")
    return value
