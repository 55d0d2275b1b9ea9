"""Reads query parameters, path parameters and JSON bodies of requests."""

from __future__ import annotations

from typing import Any

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from bascule.core.errors import InvalidAction, InvalidRequest
from bascule.wire import from_json, to_json

from .replies import RequestRefused, read_body


def json_response(value: object) -> Response:
    return Response(to_json(value), media_type="application/json")


async def json_body(request: Request) -> Any:
    """The body as JSON, whatever its declared type. Raises `RequestRefused` (400) if it is not."""
    try:
        return from_json(await read_body(request.receive))
    except InvalidAction as error:
        raise RequestRefused(400, error) from error


def text(request: Request, name: str) -> str:
    """A parameter of the query that has to be there."""
    value = request.query_params.get(name)
    if value is None:
        raise InvalidRequest(f"The query has to name `{name}`", parameter=name)
    return value


def number(request: HTTPConnection, name: str) -> int | None:
    """A parameter that counts something, if it is there."""
    value = request.query_params.get(name)
    if value is None:
        return None
    if not (value.isascii() and value.isdecimal()):
        raise InvalidRequest(f"`{name}` has to be a whole number, not {value!r}", parameter=name)
    return int(value)


def flag(request: Request, name: str) -> bool:
    value = request.query_params.get(name, "false").lower()
    if value not in ("true", "false", "1", "0"):
        raise InvalidRequest(f"`{name}` has to be true or false, not {value!r}", parameter=name)
    return value in ("true", "1")
