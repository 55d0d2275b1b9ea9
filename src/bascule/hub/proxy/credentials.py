"""Finds credentials of the hub in a request, which a session must never see.

A program of a session can listen where the hub carries requests to. Whatever token a client sends
by mistake or by habit (OpenHands sends `X-API-Key` with every request) is removed on the way.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import unquote_to_bytes

from .endpoints import EndpointPath
from .request import RequestHead

KEY_HEADERS: Final = (b"x-api-key", b"x-session-api-key")
"""Headers in which clients of OpenHands send a token of the hub."""
PAGE_KEY: Final = b"x-bascule-page"
_KEY_PARAMETERS: Final = frozenset({b"tkn", b"session_api_key"})
"""Query parameters in which VS Code and OpenHands send a token."""
_TOKEN: Final = re.compile(rb"bsc_[A-Za-z0-9_-]{16,}")
_SECRET_ADDRESS: Final = re.compile(rb"/sign-in\?|(/apps/[a-z0-9-]+/~[A-Za-z0-9_-]+)")
"""In `Referer`: an address that signs in, or the key of an app."""

IsToken = Callable[[str], Awaitable[bool]]
"""Whether a text is a token of the hub, also one without the usual prefix."""


async def hidden_headers(
    request: RequestHead, requested: EndpointPath, is_token: IsToken
) -> frozenset[bytes]:
    """Names of the headers that the target must not get.

    An app may use `X-API-Key` for a key of its own, which is passed on. An action server has no
    such key: the hub sends it the one it knows.
    """
    hidden = {PAGE_KEY}
    for name, value in request.headers:
        if name == b"cookie":
            continue  # removed cookie by cookie
        plain = name.replace(b"_", b"-")
        if (
            _TOKEN.search(value)
            or (plain == b"referer" and _is_secret_address(value, requested))
            or (plain in KEY_HEADERS and await _is_ours(value, requested, is_token))
        ):
            hidden.add(plain)
    return frozenset(hidden)


async def without_tokens(target: bytes, is_token: IsToken) -> bytes:
    """A path and query without the query parameters that hold a token of the hub."""
    path, mark, query = target.partition(b"?")
    if not query or not (b"bsc_" in query or any(name in query for name in _KEY_PARAMETERS)):
        return target
    kept = [each for each in query.split(b"&") if not await _holds_token(each, is_token)]
    return path + mark + b"&".join(kept) if kept else path


async def has_credentials(request: RequestHead, requested: EndpointPath, is_token: IsToken) -> bool:
    """Whether anything has to be removed before a session may see the request.

    For a proxy in front that cannot remove it. Cookies and `Authorization` are not looked at: such
    a proxy is told what to send of them.
    """
    hidden = await hidden_headers(request, requested, is_token)
    sent = {name.replace(b"_", b"-") for name, _ in request.headers} - {b"authorization"}
    if not hidden.isdisjoint(sent):
        return True
    return await without_tokens(request.target, is_token) != request.target


async def _is_ours(key: bytes, requested: EndpointPath, is_token: IsToken) -> bool:
    return requested.endpoint.kind == "sandbox" or await is_token(key.decode("latin-1").strip())


def _is_secret_address(referer: bytes, requested: EndpointPath) -> bool:
    """Whether the `Referer` contains another app's key. An app may know only its own."""
    found = _SECRET_ADDRESS.search(referer)
    return found is not None and found[1] != requested.prefix.encode()


async def _holds_token(parameter: bytes, is_token: IsToken) -> bool:
    name, _, value = parameter.partition(b"=")
    value = unquote_to_bytes(value.replace(b"+", b" "))
    if _TOKEN.search(value):
        return True
    return name in _KEY_PARAMETERS and await is_token(value.decode("utf-8", "replace"))
