"""The head of a response: strict parsing, and the head that the client receives.

The target is the session's own program and may be hostile. The bytes after its response belong to
the next response on the same connection, so the parser never guesses where a response ends.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal

from bascule.serving.asgi import Header
from bascule.serving.uvicorn_internals import STATUS_LINE

from .cookies import confine_cookie
from .request import HOP_BY_HOP

_STATUS: Final = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*)?")
_LINE: Final = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([\t\x20-\x7e\x80-\xff]*)")
_NUMBER: Final = re.compile(rb"[0-9]{1,18}")

_DROPPED_HEADERS: Final = frozenset(
    {
        *HOP_BY_HOP,
        b"content-length",
        # These apply to a whole host or origin, but the target has only a path of it.
        *(b"service-worker-allowed", b"clear-site-data", b"strict-transport-security"),
        *(b"alt-svc", b"public-key-pins", b"expect-ct", b"nel", b"report-to"),
        # These control an nginx in front of the hub.
        *(b"x-accel-redirect", b"x-accel-buffering", b"x-accel-expires", b"x-accel-limit-rate"),
        *(b"x-accel-charset", b"x-sendfile"),
    }
)
_CROSS_ORIGIN: Final = b"access-control-"

Framing = Literal["none", "length", "chunked", "close"]


class InvalidResponse(ValueError):
    """The response is not valid HTTP; the message says why."""


@dataclass(slots=True)  # not frozen: created for each request, see `EndpointPath`
class ResponseHead:
    """The head of a response."""

    status: int
    headers: list[Header]
    framing: Framing
    length: int
    keeps_connection: bool
    """Whether the server keeps the connection open."""

    def header(self, name: bytes) -> bytes:
        return next((value for key, value in self.headers if key == name), b"")


@dataclass(slots=True)  # not frozen: created for each request, see `EndpointPath`
class ResponseRules:
    """How the proxy changes the headers of the response to one request."""

    prefix: str
    is_stripped: bool
    """Whether the proxy removed the prefix from the request's path. Then the target does not know
    the prefix, and the proxy adds it to the URL in `Location`."""
    host: str
    added: tuple[Header, ...] = ()
    replaced: frozenset[bytes] = field(default_factory=frozenset)
    """Names of the target's headers that are dropped because `added` replaces them."""
    drops_cross_origin: bool = False
    """Whether the target's CORS headers are dropped because `added` replaces them."""


def parse_response_head(head: bytes, *, method: bytes) -> ResponseHead:
    """Parse a head, including the empty line at its end. Raises `InvalidResponse`."""
    lines = head[:-4].split(b"\r\n")
    status = _STATUS.fullmatch(lines[0])
    if status is None:
        raise InvalidResponse("it does not begin with a status line of HTTP/1")
    headers, lengths, encodings, connection = [], [], [], []
    for line in lines[1:]:
        found = _LINE.fullmatch(line)
        if found is None:
            raise InvalidResponse(f"a header is not well-formed: {line[:60]!r}")
        name, value = found[1].lower(), found[2].strip(b" \t")
        headers.append((name, value))
        if name == b"content-length":
            lengths.append(value)
        elif name == b"transfer-encoding":
            encodings.append(value.lower())
        elif name == b"connection":
            connection += [word.strip() for word in value.lower().split(b",")]
    status_code, is_http_1_1 = int(status[2]), status[1] == b"1"
    framing, length = _framing(status_code, lengths, encodings, method)
    keeps_connection = (
        framing != "close"
        and b"close" not in connection
        and (is_http_1_1 or b"keep-alive" in connection)
    )
    return ResponseHead(status_code, headers, framing, length, keeps_connection)


def _framing(
    status: int, lengths: list[bytes], encodings: list[bytes], method: bytes
) -> tuple[Framing, int]:
    if len(lengths) > 1 or (lengths and not _NUMBER.fullmatch(lengths[0])):
        raise InvalidResponse("its Content-Length is not one number")
    if encodings and (lengths or encodings != [b"chunked"]):
        raise InvalidResponse("its Transfer-Encoding is not `chunked` alone")
    length = int(lengths[0]) if lengths else 0
    if status < 200 or status in (204, 304) or method == b"HEAD":
        return "none", length
    if encodings:
        return "chunked", 0
    return ("length", length) if lengths else ("close", 0)


def incoming_head(
    answer: ResponseHead,
    response_rules: ResponseRules,
    *,
    method: bytes,
    is_http_1_0: bool,
    keep_alive: bool,
) -> tuple[bytes, bool]:
    """The head for the client, and whether the body is sent in chunks.

    `is_http_1_0`: the client uses HTTP/1.0, which has no chunks.
    """
    lines = [STATUS_LINE[answer.status]]
    for name, value in answer.headers:
        if name in _DROPPED_HEADERS or name in response_rules.replaced:
            continue
        if response_rules.drops_cross_origin and name.startswith(_CROSS_ORIGIN):
            continue
        if name == b"set-cookie":
            cookie = confine_cookie(value, response_rules.prefix)
            if cookie is None:
                continue
            value = cookie
        elif name == b"location" and response_rules.is_stripped:
            value = _add_prefix(value, response_rules)
        lines.append(b"%s: %s\r\n" % (name, value))
    lines += [b"%s: %s\r\n" % header for header in response_rules.added]
    is_chunked = answer.framing in ("chunked", "close") and not is_http_1_0
    if is_chunked:
        lines.append(b"transfer-encoding: chunked\r\n")
    elif answer.framing == "length" or (method == b"HEAD" and answer.header(b"content-length")):
        lines.append(b"content-length: %d\r\n" % answer.length)
    if not keep_alive:
        lines.append(b"connection: close\r\n")
    lines.append(b"\r\n")
    return b"".join(lines), is_chunked


def _add_prefix(location: bytes, response_rules: ResponseRules) -> bytes:
    """A `Location` of the target, with the prefix that the target does not know."""
    prefix, host = response_rules.prefix.encode(), response_rules.host.encode("latin-1")
    for scheme in (b"http://", b"https://"):
        own = scheme + host
        if location == own or location.startswith(own + b"/"):
            location = location[len(own) :] or b"/"
    if not location.startswith(b"/") or location.startswith(b"//"):
        return location
    return location if location.startswith(prefix + b"/") else prefix + location
