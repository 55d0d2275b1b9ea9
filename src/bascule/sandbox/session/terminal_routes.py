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
from bascule.sandbox.server.listener import CONNECTION, Connection
from bascule.sandbox.server.replies import Receive, Scope, Send
from bascule.sandbox.server.requests import json_body, json_response, number
from bascule.sandbox.server.sse import event as sse_event
from bascule.sandbox.server.sse import send_frames, start_events
from bascule.sandbox.server.stream import Backlog
from bascule.wire import to_json

from .terminals import SessionTerminal, SessionTerminals

_LAG: Final = 4 << 20


class TerminalRoutes:
    def __init__(self, terminals: SessionTerminals) -> None:
        self._terminals = terminals
        self._backlogs: set[Backlog] = set()

    def table(self) -> list[BaseRoute]:
        one = "/session/terminals/{name}"
        return [
            Route(one, self.open, methods=["POST"]),
            Route(one, self.end, methods=["DELETE"]),
            Route(f"{one}/keys", self.type, methods=["POST"]),
            Route(f"{one}/output", _Output(self), methods=["GET"]),
        ]

    def finish(self) -> None:
        for backlog in tuple(self._backlogs):
            backlog.finish()

    async def open(self, request: Request) -> Response:
        asked = await _body(request)
        columns, rows = _count(asked, "columns", 80), _count(asked, "rows", 24)
        terminal = await self._terminals.open(_name(request), columns=columns, rows=rows)
        start, _ = terminal.shown_from(0)
        return json_response({"name": terminal.name, "start": start, "end": terminal.end})

    async def type(self, request: Request) -> Response:
        """`{"data"}` in Base64 is typed, `columns` and `rows` make it another size."""
        terminal, asked = self._terminals.get(_name(request)), await _body(request)
        if "columns" in asked:
            await self._terminals.open(
                terminal.name, columns=_count(asked, "columns", 80), rows=_count(asked, "rows", 24)
            )
        try:
            terminal.type(base64.b64decode(str(asked.get("data", "")), validate=True))
        except binascii.Error as error:
            raise InvalidRequest(f"`data` is no Base64: {error}") from error
        return json_response({})

    async def end(self, request: Request) -> Response:
        await self._terminals.end(_name(request))
        return json_response({})

    async def send_output(
        self, terminal: SessionTerminal, start: int, scope: Scope, send: Send
    ) -> None:
        connection: Connection = scope[CONNECTION]
        backlog = Backlog(_LAG)

        def take(offset: int, data: bytes) -> None:
            if data:
                backlog.take(OutputProgress(terminal.name, offset, data))
            else:
                backlog.finish()

        begin, shown = terminal.shown_from(start)
        if shown:
            take(begin, shown)
        unsubscribe = terminal.subscribe(take)
        if terminal.is_over:
            backlog.finish()
        self._backlogs.add(backlog)
        connection.when_lost = backlog.finish
        try:
            await start_events(send)
            await send_frames(send, backlog.frames)
            body = sse_event("ended", to_json({"end": terminal.end})) if terminal.is_over else b""
            await send({"type": "http.response.body", "body": body})
        finally:
            connection.when_lost = None
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


def _name(request: Request) -> str:
    name: str = request.path_params["name"]
    return name


async def _body(request: Request) -> dict[str, Any]:
    asked = await json_body(request)
    if not isinstance(asked, dict):
        raise InvalidRequest("The body has to be an object")
    return asked


def _count(asked: dict[str, Any], name: str, usual: int) -> int:
    value = asked.get(name, usual)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequest(f"`{name}` has to be a whole number")
    return value
