"""The head of a request: validation, and the head that the target receives."""

from __future__ import annotations

from collections.abc import KeysView, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from bascule.core.errors import InvalidRequest
from bascule.serving.asgi import Header
from bascule.serving.request_rules import HOST_BYTES

from .cookies import without_hub_cookies
from .endpoints import EndpointPath
from .routes import UpstreamServer

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
"""Headers that only the proxy sets; it drops those of the client."""
SANDBOX_KEY: Final = b"x-session-api-key"
"""Header with a client's token; the proxy replaces it by the action server's own key."""
_NEVER_PASSED: Final = HOP_BY_HOP | _REPLACED
_HEALTH_CHECK_PATH: Final = b"/alive"
_NO_NAMES: Final[frozenset[bytes]] = frozenset()
_WEBSOCKET: Final = (b"connection: Upgrade\r\nupgrade: websocket\r\n",)


@dataclass(slots=True)
class RequestHead:
    """The head of a request as received. The parser has refused most malformed requests."""

    method: bytes
    target: bytes
    version: str
    headers: Sequence[Header]
    peer: str
    """The client's address."""
    is_upgrade: bool = False
    """Whether the client requests an upgrade; the parser stops after the head."""
    host: str = field(init=False)
    """The `Host` header in lower case; empty if missing."""
    _fields: dict[bytes, bytes] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._fields = dict(self.headers)
        self.host = self._fields.get(b"host", b"").decode("latin-1").lower()

    @property
    def names(self) -> KeysView[bytes]:
        """The names of all headers, each once."""
        return self._fields.keys()

    def header(self, name: bytes) -> bytes:
        """The value of a header; empty if missing, the last one if repeated."""
        return self._fields.get(name, b"")

    def header_values(self, name: bytes) -> list[bytes]:
        if name not in self._fields:
            return []
        return [value for key, value in self.headers if key == name]

    @property
    def has_plain_host(self) -> bool:
        """Whether there is exactly one `Host` header, with a valid host name and port."""
        host = self._fields.get(b"host")
        if host is None or HOST_BYTES.fullmatch(host) is None:
            return False
        # If no header is repeated, `Host` is not repeated either; this is cheaper to check.
        return len(self._fields) == len(self.headers) or len(self.header_values(b"host")) == 1

    @property
    def is_websocket(self) -> bool:
        return self.is_upgrade and self.header(b"upgrade").lower() == b"websocket"

    @property
    def has_body(self) -> bool:
        return b"content-length" in self._fields or b"transfer-encoding" in self._fields

    @property
    def is_page(self) -> bool:
        """Whether the response is shown to a person as a page."""
        if self.method not in (b"GET", b"HEAD"):
            return False
        destination = self.header(b"sec-fetch-dest")
        if destination:
            return destination in (b"document", b"iframe", b"frame")
        return b"text/html" in self.header(b"accept")

    @property
    def is_navigation(self) -> bool:
        """Whether a browser requests a document to show in a tab or frame."""
        return self.header(b"sec-fetch-mode") == b"navigate" or (
            self.is_page and self.header(b"sec-fetch-dest") != b""
        )

    def is_visit(self, requested: EndpointPath) -> bool:
        """Whether a person or program starts using the endpoint now.

        Background requests of an open page and health checks do not count.
        """
        if requested.endpoint.kind == "sandbox":
            return (
                self.method not in (b"GET", b"HEAD")
                or requested.rest.partition(b"?")[0] != _HEALTH_CHECK_PATH
            )
        if mode := self.header(b"sec-fetch-mode"):
            return mode == b"navigate"
        # Without `Sec-Fetch-Mode`, a GET with an `Origin` counts as a WebSocket of an open page.
        return not (self.method == b"GET" and self.header(b"origin"))


def ensure_framed(request: RequestHead) -> None:
    """Refuse requests whose end two servers could see in different places (request smuggling).

    Raises `InvalidRequest`.

    The parser has already refused: a repeated Content-Length or one with Transfer-Encoding, line
    breaks without CR, folded headers, spaces before a colon, and chunks with a wrong size.
    """
    if request.version not in ("1.0", "1.1"):
        raise InvalidRequest(f"HTTP/{request.version} is not supported")
    if not request.target.startswith(b"/"):
        raise InvalidRequest("The request target must be a path, not a full URL")
    encodings = request.header_values(b"transfer-encoding")
    if encodings and (request.version == "1.0" or [e.lower() for e in encodings] != [b"chunked"]):
        raise InvalidRequest("The only supported Transfer-Encoding is `chunked`, with HTTP/1.1")
    if not request.has_plain_host:
        raise InvalidRequest(
            "A request must have one Host header: a name or IP address, optionally with a port"
        )
    if request.is_upgrade and request.has_body:
        raise InvalidRequest("A request to switch protocols must not have a body")


def outgoing_head(
    request: RequestHead,
    requested: EndpointPath,
    target: UpstreamServer,
    *,
    scheme: str,
    hidden: frozenset[bytes] = _NO_NAMES,
    authorization: bytes = b"",
    origin: bytes = b"",
    traceparent: bytes = b"",
) -> bytes:
    """The request head for the target, without the headers in `hidden`.

    `Host` stays as it is, because VS Code compares it with `Origin`. An action server accepts only
    local names, so it gets `localhost`. `authorization` replaces that header, `origin` an opaque
    `Origin`, and `traceparent` the client's, if it has one. The body is sent in the client's
    framing: by length or in chunks.
    """
    is_sandbox = requested.endpoint.kind == "sandbox"
    hidden_or_set = hidden.union(name for name, _ in target.headers) if target.headers else hidden
    dropped = _named_by_connection(request)
    prefix = requested.prefix.encode()
    path = prefix + requested.rest if target.keeps_prefix else requested.rest
    host = request.header(b"host")
    host_for_target = b"localhost" if is_sandbox else host
    lines = [b"%s %s HTTP/1.1\r\nhost: %s\r\n" % (request.method, path, host_for_target)]
    if request.is_websocket:
        lines += _WEBSOCKET
    for name, value in request.headers:
        # CGI-style servers turn headers into variables, where X_Real_IP and X-Real-IP are equal.
        normalized = name.replace(b"_", b"-") if b"_" in name else name
        if origin and name == b"origin":
            lines.append(b"origin: %s\r\n" % origin)
        elif traceparent and name == b"traceparent":
            lines.append(b"traceparent: %s\r\n" % traceparent)
        elif not (
            normalized in _NEVER_PASSED
            or normalized in hidden_or_set
            or name in dropped
            or normalized[:12] == b"x-forwarded-"
        ):
            lines.append(b"%s: %s\r\n" % (name, value))
    if (cookies := request.header_values(b"cookie")) and (
        kept := without_hub_cookies(b"; ".join(cookies))
    ):
        lines.append(b"cookie: %s\r\n" % kept)
    if authorization and b"authorization" not in hidden_or_set:
        lines.append(b"authorization: %s\r\n" % authorization)
    lines += [b"%s: %s\r\n" % header for header in target.headers]
    lines.append(_framing(request))
    peer = request.peer.encode()
    lines.append(
        b"x-forwarded-for: %s\r\nx-real-ip: %s\r\nx-forwarded-host: %s\r\nx-forwarded-proto: %s\r\n"
        b"x-forwarded-prefix: %s\r\nx-forwarded-path: %s/\r\nx-original-uri: %s%s\r\n\r\n"
        % (peer, peer, host, scheme.encode(), prefix, prefix, prefix, requested.rest)
    )
    return b"".join(lines)


def _named_by_connection(request: RequestHead) -> AbstractSet[bytes]:
    """Names of the headers that `Connection` declares to be for this connection only."""
    if b"connection" not in request.names:
        return _NO_NAMES
    return {
        word.strip() for word in b",".join(request.header_values(b"connection")).lower().split(b",")
    }


def _framing(request: RequestHead) -> bytes:
    if not request.has_body:
        return b""
    if request.header(b"transfer-encoding"):
        return b"transfer-encoding: chunked\r\n"
    length = request.header(b"content-length")
    return b"content-length: %d\r\n" % int(length) if length else b""
