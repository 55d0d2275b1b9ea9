"""Reads query parameters, path parameters and JSON bodies of requests."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import IO, Any, Final

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from bascule.core.errors import InvalidAction, InvalidRequest
from bascule.serving.asgi import read_body, read_pieces
from bascule.serving.refusals import Refused
from bascule.wire import from_json, to_json

_IN_MEMORY: Final = 1 << 20


def json_response(value: object) -> Response:
    return Response(to_json(value), media_type="application/json")


async def json_body(request: Request) -> Any:
    """Parse the body as JSON, whatever its `Content-Type`. Raises `Refused` (400) if invalid."""
    try:
        return from_json(await read_body(request.receive))
    except InvalidAction as error:
        raise Refused(400, error) from error


@asynccontextmanager
async def spooled_body(
    request: Request, in_thread: Callable[..., Awaitable[Any]]
) -> AsyncIterator[IO[bytes]]:
    """The whole body as a file, at its start. Until the body has arrived, it holds no thread."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as spool:
        async for piece in read_pieces(request.receive):
            await in_thread(spool.write, piece)
        spool.seek(0)
        yield spool


def text(request: Request, name: str) -> str:
    """Return a required query parameter."""
    value = request.query_params.get(name)
    if value is None:
        raise InvalidRequest(f"The query must contain `{name}`", parameter=name)
    return value


def number(request: HTTPConnection, name: str) -> int | None:
    """Return an optional query parameter that must be a non-negative integer."""
    value = request.query_params.get(name)
    if value is None:
        return None
    if not (value.isascii() and value.isdecimal()):
        raise InvalidRequest(f"`{name}` must be an integer, not {value!r}", parameter=name)
    return int(value)


def flag(request: Request, name: str) -> bool:
    value = request.query_params.get(name, "false").lower()
    if value not in ("true", "false", "1", "0"):
        raise InvalidRequest(f"`{name}` must be true or false, not {value!r}", parameter=name)
    return value in ("true", "1")
