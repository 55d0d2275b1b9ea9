"""Checks key, `Host` and `Origin` before every endpoint, HTTP and WebSocket alike."""

from __future__ import annotations

import hmac

from bascule.core.errors import AccessDenied
from bascule.sandbox.settings import ServerSettings
from bascule.serving.asgi import App, Receive, Scope, Send
from bascule.serving.refusals import Refused
from bascule.serving.request_rules import HostRules, bounded, ensure_content_type

from .replies import ERRORS

OPEN_PATHS = frozenset({"/alive", "/server_info"})
"""Paths answered without a key, to every client that can reach the port."""

UPLOAD_PATH = "/upload_file"
WRITE_PATH = "/filesystem/file"
WORKSPACE_PATH = "/session/workspace"
CHANGES_PATH = "/session/changes"
_UPLOADS = frozenset({UPLOAD_PATH, WRITE_PATH, WORKSPACE_PATH, CHANGES_PATH})

_BODY_TYPES = frozenset({b"application/json", b"multipart/form-data", b"application/octet-stream"})


class SandboxGuard:
    """Admits requests that have the key and an allowed `Host`, and either no `Origin` or an allowed
    one. `OPEN_PATHS` need no key.

    Also rejects bodies that are larger than the settings allow.
    """

    def __init__(self, app: App, settings: ServerSettings) -> None:
        self._app = app
        self._key = settings.key.encode()
        self._bearer = b"Bearer " + self._key
        self._host_rules = HostRules(
            "server",
            listens_on=settings.host,
            names=settings.allowed_hosts,
            origins=settings.allowed_origins,
        )
        self._max_message = settings.max_message
        self._max_upload = settings.max_upload

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        try:
            headers = scope["bascule.headers"] = self._host_rules.checked_headers(scope["headers"])
            if path not in OPEN_PATHS and not self._has_key(headers):
                denied = AccessDenied("The key (`X-Session-API-Key`) is missing or wrong")
                raise Refused(403, denied)
            ensure_content_type(headers, _BODY_TYPES)
            limit = self._max_upload if path in _UPLOADS else self._max_message
            receive = bounded(headers, receive, limit)
        except Refused as refused:
            await ERRORS.send(scope, send, refused.error, refused.status)
        else:
            await self._app(scope, receive, send)

    def _has_key(self, headers: dict[bytes, bytes]) -> bool:
        key = headers.get(b"x-session-api-key")
        if key is not None:
            return hmac.compare_digest(key, self._key)
        return hmac.compare_digest(headers.get(b"authorization", b""), self._bearer)
