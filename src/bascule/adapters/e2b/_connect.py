"""The Connect protocol with JSON: unary calls, and streams of envelopes."""

from __future__ import annotations

import logging
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bascule.core.errors import (
    BasculeError,
    InternalError,
    InvalidAction,
    InvalidRequest,
    MessageTooLarge,
)
from bascule.serving.asgi import ClientDisconnected, read_body, read_pieces
from bascule.serving.refusals import Refused
from bascule.wire import from_json, to_json

from ._errors import connect_error

logger = logging.getLogger(__name__)

UNARY: Final = "application/json"
STREAM: Final = "application/connect+json"
_HEAD: Final = struct.Struct("!BI")
_COMPRESSED: Final = 1
_END: Final = 2
_MAX_MESSAGE: Final = 8 << 20
"""Maximum bytes of one message of a client's stream."""

Fields = dict[str, Any]


def ensure_kind(request: Request, kind: str) -> None:
    """Raises `Refused` if the body is not of this media type."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != kind:
        error = InvalidRequest(f"A body of type {given!r} is not accepted here; send {kind}")
        raise Refused(415, error)
    for name in ("content-encoding", "connect-content-encoding"):
        if request.headers.get(name, "identity") != "identity":
            raise InvalidRequest(f"`{name}` must be identity: compressed messages are not accepted")


async def read_message(request: Request) -> Fields:
    """The message of a unary call."""
    return _fields(await read_body(request.receive))


async def read_envelopes(request: Request) -> AsyncIterator[Fields]:
    """The messages of a client's stream as they arrive."""
    buffer = bytearray()
    async for piece in read_pieces(request.receive):
        buffer += piece
        while len(buffer) >= _HEAD.size:
            flags, size = _HEAD.unpack_from(buffer)
            if flags & _COMPRESSED:
                raise InvalidRequest("Compressed messages are not accepted")
            if size > _MAX_MESSAGE:
                raise MessageTooLarge(
                    f"A message has {size} bytes; the maximum is {_MAX_MESSAGE}. Send smaller ones"
                )
            if len(buffer) < _HEAD.size + size:
                break
            message = bytes(buffer[_HEAD.size : _HEAD.size + size])
            del buffer[: _HEAD.size + size]
            if flags & _END:
                return
            yield _fields(message)
    if buffer:
        raise InvalidRequest(f"The body ends inside of a message, after {len(buffer)} bytes of it")


async def read_single_envelope(request: Request) -> Fields:
    """The only message of a call whose answer is a stream."""
    found: Fields | None = None
    async for message in read_envelopes(request):
        if found is not None:
            raise InvalidRequest("The call takes one message, and the body has several")
        found = message
    if found is None:
        raise InvalidRequest("The body has no message: send five bytes of envelope, then JSON")
    return found


def unary_reply(value: Mapping[str, Any]) -> Response:
    return Response(to_json(value), media_type=UNARY)


def unary_error(error: BasculeError) -> Response:
    status, body = connect_error(error)
    return Response(to_json(body), status_code=status, media_type=UNARY)


def stream_reply(messages: AsyncGenerator[Mapping[str, Any], None]) -> Response:
    """A stream of these messages. An error becomes the end of the stream."""
    return StreamingResponse(
        _envelopes(messages), media_type=STREAM, headers={"Cache-Control": "no-store"}
    )


async def stream_of_one(work: Awaitable[None]) -> Response:
    """A stream of one empty message after `work`, which may read the request."""
    end: Mapping[str, Any] = {}
    try:
        await work
    except BasculeError as error:
        end = {"error": connect_error(error)[1]}
    body = envelope(end, flags=_END) if end else envelope({}) + envelope({}, flags=_END)
    return Response(body, media_type=STREAM, headers={"Cache-Control": "no-store"})


async def _envelopes(messages: AsyncGenerator[Mapping[str, Any], None]) -> AsyncIterator[bytes]:
    end: Mapping[str, Any] = {}
    try:
        async for each in messages:
            yield envelope(each)
    except Refused as refused:
        end = {"error": connect_error(refused.error)[1]}
    except BasculeError as error:
        end = {"error": connect_error(error)[1]}
    except ClientDisconnected:
        return
    except Exception:  # the edge of a request; the log has it
        logger.exception("a stream for a client of E2B failed")
        failure = InternalError("The hub failed; its log has the cause")
        end = {"error": connect_error(failure)[1]}
    finally:
        await messages.aclose()
    yield envelope(end, flags=_END)


def envelope(value: Mapping[str, Any], *, flags: int = 0) -> bytes:
    body = to_json(value)
    return _HEAD.pack(flags, len(body)) + body


def _fields(body: bytes) -> Fields:
    try:
        value = from_json(body or b"{}")
    except InvalidAction as error:
        raise InvalidRequest(f"The message is not JSON: {error.message}") from error
    if not isinstance(value, dict):
        raise InvalidRequest("The message must be a JSON object")
    return value
