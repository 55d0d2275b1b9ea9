"""Checks key, `Host` and `Origin` before every endpoint, HTTP and WebSocket alike."""

from __future__ import annotations

import hmac
import ipaddress

from bascule.core.errors import AccessDenied, InvalidRequest, MessageTooLarge
from bascule.sandbox.settings import ServerSettings

from .replies import App, Message, Receive, RequestRefused, Scope, Send, send_error

OPEN_PATHS = frozenset({"/alive", "/server_info"})
"""Answered without a key, to whoever can reach the port."""

UPLOAD_PATH = "/upload_file"
WORKSPACE_PATH = "/session/workspace"
_UPLOADS = frozenset({UPLOAD_PATH, WORKSPACE_PATH})

_BODY_TYPES = frozenset({b"application/json", b"multipart/form-data", b"application/octet-stream"})
_WILDCARDS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  # compared with, never bound


class SandboxGuard:
    """Admits requests that carry the key, name this server in `Host` and come from no web page.

    A page that made its own name point at this machine sends that name in `Host`; one that just
    sends a form has an `Origin`, and a kind of body that no client of ours uses. Bodies larger
    than the settings allow end here as well.
    """

    def __init__(self, app: App, settings: ServerSettings) -> None:
        self._app = app
        self._key = settings.key.encode()
        self._bearer = b"Bearer " + self._key
        self._hosts = {name.lower() for name in (*settings.allowed_hosts, settings.host)}
        self._origins = {origin.encode().lower() for origin in settings.allowed_origins}
        self._max_message = settings.max_message
        self._max_upload = settings.max_upload
        self._known_hosts: dict[bytes, bool] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        scope["bascule.headers"] = headers
        try:
            self._ensure_welcome(scope["path"], headers)
            receive = self._bounded(scope["path"], headers, receive)
        except RequestRefused as refused:
            await send_error(scope, send, refused.error, refused.status)
        else:
            await self._app(scope, receive, send)

    def _ensure_welcome(self, path: str, headers: dict[bytes, bytes]) -> None:
        host = headers.get(b"host", b"")
        if not self._is_ours(host):
            raise _forbidden(
                f"This server does not answer to the name {host.decode('latin-1')!r}; "
                "name it in `allowed_hosts`"
            )
        origin = headers.get(b"origin")
        if origin is not None and origin.lower() not in self._origins:
            raise _forbidden("Web pages may not call this server")
        if path not in OPEN_PATHS and not self._has_key(headers):
            raise _forbidden("The key (`X-Session-API-Key`) is missing or wrong")
        kind = headers.get(b"content-type")
        if kind is not None and kind.partition(b";")[0].strip().lower() not in _BODY_TYPES:
            raise RequestRefused(
                415, InvalidRequest(f"A body of type {kind.decode('latin-1')!r} is not accepted")
            )

    def _has_key(self, headers: dict[bytes, bytes]) -> bool:
        given = headers.get(b"x-session-api-key")
        if given is not None:
            return hmac.compare_digest(given, self._key)
        return hmac.compare_digest(headers.get(b"authorization", b""), self._bearer)

    def _is_ours(self, host: bytes) -> bool:
        known = self._known_hosts.get(host)
        if known is None:
            known = self._judge(host.decode("latin-1").lower())
            if len(self._known_hosts) < 100:
                self._known_hosts[host] = known
        return known

    def _judge(self, host: str) -> bool:
        name = _without_port(host)
        if "*" in self._hosts or name == "localhost" or name in self._hosts - _WILDCARDS:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        # A number is never a name that somebody else made point here.
        return address.is_loopback or bool(self._hosts & _WILDCARDS)

    def _bounded(self, path: str, headers: dict[bytes, bytes], receive: Receive) -> Receive:
        limit = self._max_upload if path in _UPLOADS else self._max_message
        declared = headers.get(b"content-length")
        if declared is not None:
            if int(declared) > limit:
                raise _too_large(limit)
            return receive
        return _counted(receive, limit) if b"transfer-encoding" in headers else receive


def _counted(receive: Receive, limit: int) -> Receive:
    taken = 0

    async def counted() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > limit:
            raise _too_large(limit)
        return message

    return counted


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _forbidden(message: str) -> RequestRefused:
    return RequestRefused(403, AccessDenied(message))


def _too_large(limit: int) -> RequestRefused:
    return RequestRefused(
        413, MessageTooLarge(f"The body is larger than {limit} bytes", limit=limit)
    )
