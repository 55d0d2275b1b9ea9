"""Decodes programs' output and files, and renders answers, without stalling the event loop.

One call of a codec or of the JSON encoder holds the GIL until it returns, also in a thread. So
text is converted piece by piece.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from starlette.responses import Response

_PIECE: Final = 1 << 16
"""Characters that are converted by one call."""


async def decoded(data: bytes, *, encoding: str = "utf-8", errors: str = "strict") -> str:
    """The text of `data`. Raises `LookupError` or `ValueError` as `bytes.decode` does."""
    if len(data) <= _PIECE:
        return _decoded(data, encoding, errors)
    return await asyncio.to_thread(_decoded, data, encoding, errors)


async def json_response(content: Mapping[str, Any], status: int = 200) -> Response:
    """A response with an object of JSON values. Only its own texts may be long, not inner ones."""
    size = sum(len(each) for each in content.values() if isinstance(each, str))
    body = _json(content) if size <= _PIECE else await asyncio.to_thread(_json, content)
    return Response(body, status, media_type="application/json")


def _decoded(data: bytes, encoding: str, errors: str) -> str:
    pieces = io.TextIOWrapper(io.BytesIO(data), encoding, errors, newline="")
    return "".join(iter(lambda: pieces.read(_PIECE), ""))


def _json(content: Mapping[str, Any]) -> bytes:
    fields = (
        b"%s:%s" % (_encoded(name), b"".join(_value(value))) for name, value in content.items()
    )
    return b"{%s}" % b",".join(fields)


def _value(value: Any) -> Iterator[bytes]:
    if not isinstance(value, str):
        yield _encoded(value)
        return
    yield b'"'
    for start in range(0, len(value), _PIECE):
        yield _encoded(value[start : start + _PIECE])[1:-1]
    yield b'"'


def _encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
