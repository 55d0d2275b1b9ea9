"""Finds credentials of the hub in a request, which a session must never see.

A program of a session can be the server that receives proxied requests. So the proxy removes every
token of the hub that a client sends there by mistake or by default (OpenHands sends `X-API-Key`
with every request).
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
ALWAYS_HIDDEN: Final = frozenset({PAGE_KEY})
_KEY_PARAMETERS: Final = frozenset({b"tkn", b"session_api_key"})
"""Query parameters in which VS Code and OpenHands send a token."""
_TOKEN: Final = re.compile(rb"bsc_[A-Za-z0-9_-]{16,}")
_HANDLED_ELSEWHERE: Final = frozenset({b"cookie", b"authorization"})
"""Headers handled elsewhere: `outgoing_head` filters single cookies, and `Admission` has the
`Authorization` header for the target."""
_MAY_HOLD_KEY: Final = frozenset({b"referer", *KEY_HEADERS})
"""Headers that may hold a credential without the prefix `bsc_`."""
_SECRET_ADDRESS: Final = re.compile(rb"/sign-in\?|(/apps/[a-z0-9-]+/~[A-Za-z0-9_-]+)")
"""Matches, in `Referer`, a URL that signs in, or the key of an app."""

IsToken = Callable[[str], Awaitable[bool]]
"""Whether a text is a token of the hub, with the prefix `bsc_` or without."""


async def hidden_headers(
    request: RequestHead, requested: EndpointPath, is_token: IsToken
) -> frozenset[bytes]:
    """Names of the headers that the target must not get; always includes `ALWAYS_HIDDEN`.

    An app may use `X-API-Key` for its own keys, which are passed on. For an action server the
    `KEY_HEADERS` are always hidden: the hub adds the server's key itself.
    """
    found: set[bytes] = set()
    for name, value in request.headers:
        # This cheap test skips nearly all headers; it runs for each header of each request.
        if (
            not (b"bsc_" in value or name in _MAY_HOLD_KEY or b"_" in name)
            or name in _HANDLED_ELSEWHERE
        ):
            continue
        plain = name.replace(b"_", b"-") if b"_" in name else name
        if (
            (b"bsc_" in value and _TOKEN.search(value))
            or (plain == b"referer" and _is_secret_address(value, requested))
            or (plain in KEY_HEADERS and await _is_hub_key(value, requested, is_token))
        ):
            found.add(plain)
    return ALWAYS_HIDDEN | found if found else ALWAYS_HIDDEN


async def without_tokens(target: bytes, is_token: IsToken) -> bytes:
    """A path and query without the query parameters that hold a token of the hub."""
    path, mark, query = target.partition(b"?")
    if not (b"bsc_" in query or b"tkn" in query or b"session_api_key" in query):
        return target
    kept = [each for each in query.split(b"&") if not await _holds_token(each, is_token)]
    return path + mark + b"&".join(kept) if kept else path


async def has_credentials(request: RequestHead, requested: EndpointPath, is_token: IsToken) -> bool:
    """Whether the request holds credentials that must be removed before a session sees it.

    Used for nginx, which cannot remove them. Cookies and `Authorization` do not count: `authorize`
    tells nginx which of them to send.
    """
    hidden = await hidden_headers(request, requested, is_token)
    sent = {name.replace(b"_", b"-") for name, _ in request.headers} - {b"authorization"}
    if not hidden.isdisjoint(sent):
        return True
    return await without_tokens(request.target, is_token) != request.target


async def _is_hub_key(key: bytes, requested: EndpointPath, is_token: IsToken) -> bool:
    return requested.endpoint.kind == "sandbox" or await is_token(key.decode("latin-1").strip())


def _is_secret_address(referer: bytes, requested: EndpointPath) -> bool:
    """Whether the `Referer` is a sign-in URL or has the key of another app."""
    if b"/~" not in referer and b"/sign-in?" not in referer:
        return False  # ten times as fast as the regular expression
    found = _SECRET_ADDRESS.search(referer)
    return found is not None and found[1] != requested.prefix.encode()


async def _holds_token(parameter: bytes, is_token: IsToken) -> bool:
    name, _, value = parameter.partition(b"=")
    value = unquote_to_bytes(value.replace(b"+", b" "))
    if _TOKEN.search(value):
        return True
    return name in _KEY_PARAMETERS and await is_token(value.decode("utf-8", "replace"))
