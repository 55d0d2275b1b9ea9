"""Error responses of the hub: their status, and `{code, message, detail}` as the body."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final

from bascule.core.errors import (
    AccessDenied,
    BasculeError,
    EditConflict,
    HubUnreachable,
    InvalidAction,
    InvalidPairing,
    InvalidState,
    MessageTooLarge,
    NoSuchSession,
    NoSuchWindow,
    OutcomeUnknown,
    PermissionRefused,
    QuotaExceeded,
    SandboxUnreachable,
    StorageFailed,
    UsageError,
    WindowGone,
    WindowTaken,
    WindowUnhealthy,
)
from bascule.wire import error_to_wire, to_json

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_STATUS: Final[Mapping[type[BasculeError], int]] = {
    AccessDenied: 403,
    InvalidPairing: 403,
    PermissionRefused: 403,
    NoSuchWindow: 404,
    NoSuchSession: 404,
    InvalidState: 409,
    QuotaExceeded: 429,
    StorageFailed: 507,
    WindowTaken: 409,
    EditConflict: 409,
    MessageTooLarge: 413,
    InvalidAction: 422,
    HubUnreachable: 503,
    WindowGone: 503,
    SandboxUnreachable: 503,
    WindowUnhealthy: 503,
    OutcomeUnknown: 504,
}


class Refused(Exception):
    """Ends a request with this error and status."""

    def __init__(self, status: int, error: BasculeError) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error


def status_of(error: BasculeError) -> int:
    """The HTTP status of an error: 400 for usage errors, 500 for failures, some more exact."""
    return _STATUS.get(type(error)) or (400 if isinstance(error, UsageError) else 500)


async def send_error(
    scope: Scope, send: Send, error: BasculeError, status: int | None = None
) -> None:
    """Answer with an error; a WebSocket handshake is refused with the same answer."""
    status = status or status_of(error)
    body = to_json(error_to_wire(error))
    headers = [(b"content-type", b"application/json")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    kind = "http" if scope["type"] == "http" else "websocket.http"
    if kind == "http":
        headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": f"{kind}.response.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.response.body", "body": body})
