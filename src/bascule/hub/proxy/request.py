"""The head of a request: validation, and the head that the target receives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from bascule.core.errors import InvalidRequest

from .cookies import without_ours
from .endpoints import EndpointPath
from .routes import UpstreamServer

Header = tuple[bytes, bytes]
"""Name in lower case, and value."""

HOP_BY_HOP: Final = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer"),
        *(b"transfer-encoding", b"upgrade", b"http2-settings", b"proxy-authorization"),
        b"proxy-authenticate",
    }
)
_REPLACED: Final = frozenset(
    {
        *(b"forwarded", b"x-real-ip", b"x-original-uri", b"x-original-url", b"x-rewrite-url"),
        *(b"x-accel-redirect", b"host", b"cookie", b"authorization", b"expect", b"content-length"),
    }
)
"""Headers that only the proxy sets; those of the client are dropped."""
SANDBOX_KEY: Final = b"x-session-api-key"
"""Header with a client's token; the action server gets its own key in it instead."""
_ALIVE: Final = b"/alive"
_NONE: Final[frozenset[bytes]] = frozenset()
_HOST: Final = re.compile(rb"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_WEBSOCKET: Final = (b"connection: Upgrade\r\nupgrade: websocket\r\n",)


@dataclass(slots=True)
class RequestHead:
    """The head of a request as received.

    One parser reads its framing and refuses most malformed requests.

    One parser reads its framing and refuses most malformed requests.
    """

    method: bytes
    target: bytes
    version: str
    headers: Sequence[Header]
    peer: str
    """The client's address."""
    is_upgrade: bool = False
    """Whether the client requests an upgrade; the parser stops after the head."""
    _fields: dict[bytes, bytes] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._fields = dict(self.headers)

    def one(self, name: bytes) -> bytes:
        """The value of a header; empty if missing, the last one if repeated."""
        return self._fields.get(name, b"")

    def all(self, name: bytes) -> list[bytes]:
        if name not in self._fields:
            return []
        return [value for key, value in self.headers if key == name]

    @property
    def host(self) -> str:
        return self.one(b"host").decode("latin-1").lower()

    @property
    def has_plain_host(self) -> bool:
        """Whether there is exactly one `Host` header, with a valid host name and port."""
        host = self._fields.get(b"host")
        if host is None or _HOST.fullmatch(host) is None:
            return False
        # Without any header twice there is no second Host either.
        return len(self._fields) == len(self.headers) or len(self.all(b"host")) == 1

    @property
    def is_websocket(self) -> bool:
        return self.is_upgrade and self.one(b"upgrade").lower() == b"websocket"

    @property
    def has_body(self) -> bool:
        return b"content-length" in self._fields or b"transfer-encoding" in self._fields

    @property
    def is_page(self) -> bool:
        """Whether the response is shown to a person as a page."""
        if self.method not in (b"GET", b"HEAD"):
            return False
        wanted = self.one(b"sec-fetch-dest")
        if wanted:
            return wanted in (b"document", b"iframe", b"frame")
        return b"text/html" in self.one(b"accept")

    @property
    def is_navigation(self) -> bool:
        """Whether a browser requests a document to show in a tab or frame."""
        return self.one(b"sec-fetch-mode") == b"navigate" or (
            self.is_page and self.one(b"sec-fetch-dest") != b""
        )

    def is_visit(self, requested: EndpointPath) -> bool:
        """Whether a person or program starts using the endpoint now.

        Background requests of an open page and health checks do not count.

        Background requests of an open page and health checks do not count.
        """
        if requested.endpoint.kind == "sandbox":
            return (
                self.method not in (b"GET", b"HEAD") or requested.rest.partition(b"?")[0] != _ALIVE
            )
        if how := self.one(b"sec-fetch-mode"):
            return how == b"navigate"
        return not (self.method == b"GET" and self.one(b"origin"))  # as WebSockets of pages have


def ensure_framed(request: RequestHead) -> None:
    """Refuse requests whose end two servers could see in different places (request smuggling).

    Raises `InvalidRequest`.

    Raises `InvalidRequest`.

    The parser has refused already: Content-Length twice or beside Transfer-Encoding, line breaks
    without CR, folded headers, spaces before a colon, and chunks that lie.
    """
    if request.version not in ("1.0", "1.1"):
        raise InvalidRequest(f"HTTP/{request.version} is not supported")
    if not request.target.startswith(b"/"):
        raise InvalidRequest("The request target must be a path, not a full URL")
    encodings = request.all(b"transfer-encoding")
    if encodings and (request.version == "1.0" or [e.lower() for e in encodings] != [b"chunked"]):
        raise InvalidRequest("The only Transfer-Encoding is `chunked`, in HTTP/1.1")
    if not request.has_plain_host:
        raise InvalidRequest("A request has one Host, a name or a number and maybe a port")
    if request.is_upgrade and request.has_body:
        raise InvalidRequest("A request to change protocols has no body")


def outgoing_head(
    request: RequestHead,
    requested: EndpointPath,
    target: UpstreamServer,
    *,
    scheme: str,
    hidden: AbstractSet[bytes] = _NONE,
    authorization: bytes = b"",
    origin: bytes = b"",
) -> bytes:
    """The request head for the target, without the headers in `hidden`.

    Host goes through: VS Code compares it with Origin. An action server answers to no name but
    its own, so there it does not. `authorization` is what may pass of that header; `origin`
    replaces an opaque one. The body is framed anew by whoever sends it.
    """
    is_sandbox = requested.endpoint.kind == "sandbox"
    own: AbstractSet[bytes] = frozenset(n for n, _ in target.headers) if target.headers else _NONE
    own |= hidden
    named = b",".join(request.all(b"connection")).lower().split(b",")
    dropped = {word.strip() for word in named}
    path = requested.prefix.encode() + requested.rest if target.keeps_prefix else requested.rest
    host = request.one(b"host")
    known_as = b"localhost" if is_sandbox else host
    lines = [b"%s %s HTTP/1.1\r\nhost: %s\r\n" % (request.method, path, known_as)]
    if request.is_websocket:
        lines += _WEBSOCKET
    cookies = []
    for name, value in request.headers:
        if name == b"cookie":
            cookies.append(value)
        elif name == b"origin" and origin:
            lines.append(b"origin: %s\r\n" % origin)
        elif not _is_dropped(name, own) and name not in dropped:
            lines.append(b"%s: %s\r\n" % (name, value))
    if cookies and (kept := without_ours(b"; ".join(cookies))):
        lines.append(b"cookie: %s\r\n" % kept)
    if authorization and b"authorization" not in own:
        lines.append(b"authorization: %s\r\n" % authorization)
    lines += [b"%s: %s\r\n" % header for header in target.headers]
    lines.append(_framing(request))
    prefix = requested.prefix.encode()
    lines.append(
        b"x-forwarded-for: %s\r\nx-real-ip: %s\r\nx-forwarded-host: %s\r\nx-forwarded-proto: %s\r\n"
        b"x-forwarded-prefix: %s\r\nx-forwarded-path: %s/\r\nx-original-uri: %s\r\n\r\n"
        % (
            *(request.peer.encode(), request.peer.encode(), host, scheme.encode()),
            *(prefix, prefix, prefix + requested.rest),
        )
    )
    return b"".join(lines)


def _is_dropped(name: bytes, own: AbstractSet[bytes]) -> bool:
    if b"_" in name:
        # Servers that hand headers on as variables read X_Real_IP and X-Real-IP as the same.
        name = name.replace(b"_", b"-")
    return (
        name in HOP_BY_HOP or name in _REPLACED or name in own or name.startswith(b"x-forwarded-")
    )


def _framing(request: RequestHead) -> bytes:
    if request.one(b"transfer-encoding"):
        return b"transfer-encoding: chunked\r\n"
    length = request.one(b"content-length")
    return b"content-length: %d\r\n" % int(length) if length else b""
