"""Authenticates every HTTP request and every socket handshake, and checks Host and Origin."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from bascule.core.errors import AccessDenied, BasculeError
from bascule.serving.asgi import App, Message, Receive, Scope, Send
from bascule.serving.connection import CONNECTION
from bascule.serving.refusals import Refused
from bascule.serving.request_rules import HostRules, bounded, ensure_content_type

from .identity import Identity
from .leases import RequestLeases, TokenLeases
from .origins import Origins
from .replies import ERRORS
from .settings import HubSettings
from .tokens import Tokens

IDENTITY: Final = "bascule.identity"
"""Key of the caller's `Identity` in the scope of a request."""

OPEN_PATHS: Final = frozenset({"/health", "/docs", "/openapi.json"})
"""Paths that need no token; their responses hold no data of any user."""
PAIRING_PREFIX: Final = "/api/vscode/pair/"
"""Prefix of paths that contain a pairing code, which replaces the token."""

ARCHIVES_PATH: Final = "/api/archives"
"""Path whose bodies are binary and may be larger."""

_JSON_TYPES: Final = frozenset({b"application/json"})
_BINARY_TYPES: Final = frozenset({b"application/octet-stream"})
_FORM_TYPES: Final = frozenset({b"multipart/form-data"})

_DISCONNECT: Final[Message] = {"type": "websocket.disconnect", "code": 1008}

Identify = Callable[[str, dict[bytes, bytes]], Awaitable[Identity]]
"""Returns the identity behind a request, by its path and headers, or raises `Refused`."""

SendError = Callable[[Scope, Send, BasculeError, int], Awaitable[None]]
"""Sends an error response with this status."""


_OPENHANDS_HEADERS: Final = (b"x-api-key", b"x-session-api-key")
"""Headers in which clients of OpenHands send a token, in order of precedence."""


@dataclass(frozen=True, slots=True)
class PathRules:
    """How the guard treats a path that clients of another product use."""

    identify: Identify
    """Identifies the caller by that product's headers. It must not accept cookies."""
    errors: SendError
    """Sends refusals in the form that the clients read."""
    body_types: frozenset[bytes]
    """Accepted media types of bodies."""
    takes_files: bool
    """Whether bodies may be as large as `max_upload`."""


def by_token(tokens: Tokens) -> Identify:
    """An `Identify` that looks up the token in the headers."""

    async def identify(_path: str, headers: dict[bytes, bytes]) -> Identity:
        token = _token_in(headers)
        identity = await tokens.identify(token) if token else None
        if identity is None:
            problem = "is unknown or has expired" if token else "is missing"
            raise Refused(401, AccessDenied(f"The token in `Authorization: Bearer` {problem}"))
        return identity

    return identify


def _token_in(headers: dict[bytes, bytes]) -> str:
    """The token in the headers. A page of another origin cannot send these headers."""
    kind, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if kind.lower() == "bearer" and token:
        return token.strip()
    found = (headers[name] for name in _OPENHANDS_HEADERS if headers.get(name))
    return next(found, b"").decode("latin-1").strip()


class HubGuard:
    """Admits a request only with a valid token, with a host name of this hub, and not from a page
    of another origin. Also refuses bodies of the wrong media type or size."""

    def __init__(
        self,
        app: App,
        settings: HubSettings,
        identify: Identify,
        *,
        needs_no_token: Callable[[str], bool] = lambda _: False,
        takes_files: Callable[[str], bool] = lambda _: False,
        rules_at: Callable[[str], PathRules | None] = lambda _: None,
        leases: TokenLeases | None = None,
    ) -> None:
        """`needs_no_token`, `takes_files`, `rules_at`: properties of a path of a mount (`Mount`).

        `leases`: ends requests and sockets when their token ends.
        """
        self._leases = leases or TokenLeases()
        self._app = app
        self._identify = identify
        self._needs_no_token = needs_no_token
        self._takes_files = takes_files
        self._rules_at = rules_at
        self._max_upload = settings.max_upload
        self._host_rules = HubHostRules(settings)
        self._max_body = settings.max_body
        self._max_archive = settings.max_archive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        rules = self._rules_at(path)
        try:
            headers = self._host_rules.checked_headers(scope["headers"])
            is_open = (
                path in OPEN_PATHS or path.startswith(PAIRING_PREFIX) or self._needs_no_token(path)
            )
            if not is_open:
                identify = self._identify if rules is None else rules.identify
                scope[IDENTITY] = await identify(path, headers)
            receive = self._limit_body(path, headers, receive, rules)
            if is_open:
                await self._app(scope, receive, send)
            else:
                await self._run_leased(scope, receive, send)
        except Refused as refused:
            send_error = ERRORS.send if rules is None else rules.errors
            await send_error(scope, send, refused.error, refused.status)

    async def _run_leased(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the app until the token, or the user's access to a session of the request, ends. A
        request not yet answered is then refused."""
        request = _LeasedRequest(receive, send)
        try:
            async with self._leases.scope(scope[IDENTITY], on_end=request.end) as end:
                with RequestLeases(end):
                    await self._app(scope, request.receive, request.send)
        except AccessDenied as error:
            if not request.has_response_begun:
                raise Refused(401, error) from None
            # A WebSocket is closed by the app. A partial HTTP response must not look complete.
            connection = scope.get(CONNECTION)
            if connection is not None:
                connection.transport.abort()
                await asyncio.sleep(0)  # uvicorn must see the abort, else it logs an error

    def _limit_body(
        self, path: str, headers: dict[bytes, bytes], receive: Receive, rules: PathRules | None
    ) -> Receive:
        content_types, limit = _JSON_TYPES, self._max_body
        if rules is not None:
            content_types = rules.body_types
            limit = self._max_upload if rules.takes_files else self._max_body
        elif path == ARCHIVES_PATH:
            content_types, limit = _BINARY_TYPES, self._max_archive
        elif self._takes_files(path):
            content_types, limit = _FORM_TYPES, self._max_upload
        ensure_content_type(headers, content_types)
        return bounded(headers, receive, limit)


class _LeasedRequest:
    """`receive` and `send` of a request whose token may end meanwhile."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self.has_response_begun = False
        self._has_token_ended = False

    async def receive(self) -> Message:
        """After the token has ended, report a disconnect.

        Socket.IO suppresses a cancellation while it handles a message, then receives the next one.
        """
        return _DISCONNECT if self._has_token_ended else await self._receive()

    async def send(self, message: Message) -> None:
        self.has_response_begun = True
        await self._send(message)

    def end(self) -> None:
        self._has_token_ended = True


class HubHostRules(HostRules):
    """Which `Host` and `Origin` headers this hub accepts."""

    def __init__(self, settings: HubSettings) -> None:
        public = urlsplit(settings.public_url)
        own = [f"{public.scheme}://{public.netloc}"] if public.netloc else []
        super().__init__(
            "hub",
            listens_on=settings.host,
            names=(*settings.allowed_hosts, public.hostname or "", Origins(settings).local_name),
            origins=(*settings.allowed_origins, *own),
            has_pages=True,
        )
