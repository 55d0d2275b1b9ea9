"""Authenticates every HTTP request and every socket handshake, and checks Host and Origin."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Iterable
from typing import Final
from urllib.parse import urlsplit

from bascule.core.errors import AccessDenied, InvalidRequest, MessageTooLarge
from bascule.sandbox.server.listener import CONNECTION

from .identity import Identity
from .leases import TokenLeases
from .origins import Origins, split_host
from .replies import App, Message, Receive, Refused, Scope, Send, send_error
from .settings import HubSettings
from .tokens import Tokens

IDENTITY: Final = "bascule.identity"
"""Where a request's scope holds the `Identity` of whoever asks."""

OPEN_PATHS: Final = frozenset({"/health", "/docs", "/openapi.json"})
"""Answered without a token: they tell nothing of anybody."""
PAIRING: Final = "/api/vscode/pair/"
"""Below it a pairing code stands in for the token."""

ARCHIVES: Final = "/api/archives"
"""Where bodies are bytes, and larger."""

_BODIES: Final = frozenset({b"application/json"})
_BYTES: Final = frozenset({b"application/octet-stream"})
_FORMS: Final = frozenset({b"multipart/form-data"})
_WILDCARDS: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  # compared with, never bound


_GONE: Final[Message] = {"type": "websocket.disconnect", "code": 1008}

Identify = Callable[[str, dict[bytes, bytes]], Awaitable[Identity]]
"""Tells by a request's path and headers whom it comes from, or raises `Refused`."""


_OTHER_HEADERS: Final = (b"x-api-key", b"x-session-api-key")
"""Where clients of OpenHands bring a token, the one that may do more first."""


def by_token(tokens: Tokens) -> Identify:
    async def identify(_path: str, headers: dict[bytes, bytes]) -> Identity:
        token = _token_in(headers)
        identity = await tokens.identify(token) if token else None
        if identity is None:
            said = "is unknown or has expired" if token else "is missing"
            raise Refused(401, AccessDenied(f"The token in `Authorization: Bearer` {said}"))
        return identity

    return identify


def _token_in(headers: dict[bytes, bytes]) -> str:
    """The token in the headers. A page of another origin cannot send these headers."""
    kind, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if kind.lower() == "bearer" and token:
        return token.strip()
    found = (headers[name] for name in _OTHER_HEADERS if headers.get(name))
    return next(found, b"").decode("latin-1").strip()


class HubGuard:
    """Admits a request only with a valid token, under a name of this hub, and not from a foreign
    page.

    A page that made its own name point at this machine sends that name in `Host`; any other
    foreign page sends its `Origin`. A body that is no JSON or too large ends here as well.
    """

    def __init__(
        self,
        app: App,
        settings: HubSettings,
        identify: Identify,
        *,
        is_open: Callable[[str], bool] = lambda _: False,
        takes_files: Callable[[str], bool] = lambda _: False,
        leases: TokenLeases | None = None,
    ) -> None:
        """`is_open`, `takes_files`: ask the mounts about a path (see `Mount`).

        `leases`: holds requests and sockets, and ends them with their token.
        """
        self._leases = leases or TokenLeases()
        self._app = app
        self._identify = identify
        self._is_open = is_open
        self._takes_files = takes_files
        self._max_upload = settings.max_upload
        self._names = Names(settings)
        self._max_body = settings.max_body
        self._max_archive = settings.max_archive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        try:
            ensure_one_host(scope["headers"])
            self._names.ensure_welcome(headers)
            path: str = scope["path"]
            is_open = path in OPEN_PATHS or path.startswith(PAIRING) or self._is_open(path)
            if not is_open:
                scope[IDENTITY] = await self._identify(path, headers)
            receive = self._bounded(path, headers, receive)
            if is_open:
                await self._app(scope, receive, send)
            else:
                await self._leased(scope, receive, send)
        except Refused as refused:
            await send_error(scope, send, refused.error, refused.status)

    async def _leased(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the app until the token ends. A request not yet answered is then refused."""
        request = _Leased(receive, send)
        try:
            async with self._leases.scope(scope[IDENTITY], on_end=request.end):
                await self._app(scope, request.receive, request.send)
        except AccessDenied as error:
            if not request.has_begun:
                raise Refused(401, error) from None
            # A socket has been closed by its app. An answer must not look complete.
            connection = scope.get(CONNECTION)
            if connection is not None:
                connection.transport.abort()
                await asyncio.sleep(0)  # the server learns of it, and does not miss the rest

    def _bounded(self, path: str, headers: dict[bytes, bytes], receive: Receive) -> Receive:
        kinds, limit = _BODIES, self._max_body
        if path == ARCHIVES:
            kinds, limit = _BYTES, self._max_archive
        elif self._takes_files(path):
            kinds, limit = _FORMS, self._max_upload
        kind = headers.get(b"content-type")
        if kind is not None and kind.partition(b";")[0].strip().lower() not in kinds:
            raise Refused(
                415, InvalidRequest(f"A body of type {kind.decode('latin-1')!r} is not accepted")
            )
        declared = headers.get(b"content-length")
        if declared is not None and int(declared) > limit:
            raise _too_large(limit)
        return _counted(receive, limit)


class _Leased:
    """`receive` and `send` of a request whose token may end."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self.has_begun = False
        self._is_over = False

    async def receive(self) -> Message:
        """After the token has ended, report a disconnect.

        Socket.IO swallows a cancellation while it handles a message, then asks for the next one.
        """
        return _GONE if self._is_over else await self._receive()

    async def send(self, message: Message) -> None:
        self.has_begun = True
        await self._send(message)

    def end(self) -> None:
        self._is_over = True


class Names:
    """The host names of this hub, and the origins that may call it."""

    def __init__(self, settings: HubSettings) -> None:
        public = urlsplit(settings.public_url)
        named = {*settings.allowed_hosts, settings.host, public.hostname or ""}
        self._hosts = {name.lower() for name in named}
        self._hosts.add(Origins(settings).local_name)
        self._is_wild = settings.host in _WILDCARDS
        self._origins = {origin.lower().rstrip("/") for origin in settings.allowed_origins}
        if public.netloc:
            self._origins.add(f"{public.scheme}://{public.netloc}".lower())

    def ensure_welcome(self, headers: dict[bytes, bytes]) -> None:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if not self._is_ours(host):
            raise _forbidden(
                f"This hub does not answer to the name {host!r}; name it in `allowed_hosts`"
            )
        origin = headers.get(b"origin")
        if origin is not None and not self._may_call(origin.decode("latin-1").lower(), host):
            raise _forbidden("Pages of other origins may not call this hub")

    def _may_call(self, origin: str, host: str) -> bool:
        return origin in self._origins or origin in (f"http://{host}", f"https://{host}")

    def _is_ours(self, host: str) -> bool:
        name, _ = split_host(host)
        if not name:
            return False
        if "*" in self._hosts or name == "localhost" or name in self._hosts - _WILDCARDS:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        # A number is never a name that somebody else made point here.
        return address.is_loopback or self._is_wild


def ensure_one_host(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Raise `Refused` for several `Host` headers: two servers may read different ones."""
    if sum(name == b"host" for name, _ in headers) > 1:
        raise Refused(400, InvalidRequest("A request has one Host header; this one has several"))


def _counted(receive: Receive, limit: int) -> Receive:
    taken = 0

    async def counted() -> Message:
        nonlocal taken
        message = await receive()
        if message["type"] == "http.request":
            taken += len(message.get("body", b""))
            if taken > limit:
                raise _too_large(limit)
        return message

    return counted


def _forbidden(message: str) -> Refused:
    return Refused(403, AccessDenied(message))


def _too_large(limit: int) -> Refused:
    return Refused(413, MessageTooLarge(f"The body is larger than {limit} bytes", limit=limit))
