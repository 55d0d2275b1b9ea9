"""Error responses: each error's HTTP status, and its body as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bascule.core.errors import BasculeError, UsageError
from bascule.wire import error_to_wire, to_json

from .asgi import JSON, Header, Scope, Send, send_whole

EncodeError = Callable[[BasculeError], bytes]
_CHALLENGE: Header = (b"www-authenticate", b"Bearer")
"""HTTP requires this header in every 401 response."""


class Refused(Exception):
    """Raised to answer a request with this error and HTTP status."""

    def __init__(self, status: int, error: BasculeError) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error


def encode_error(error: BasculeError) -> bytes:
    """The usual body: `{code, message, detail}`."""
    return to_json(error_to_wire(error))


def error_headers(status: int) -> tuple[Header, ...]:
    return (JSON, _CHALLENGE) if status == 401 else (JSON,)


@dataclass(frozen=True, slots=True)
class ErrorResponses:
    """Maps errors to HTTP responses for one server."""

    statuses: Mapping[type[BasculeError], int]
    """Statuses of single errors. All others have 400 if they are a `UsageError`, otherwise 500."""
    encode: EncodeError = encode_error

    def status_of(self, error: BasculeError) -> int:
        return self.statuses.get(type(error)) or (400 if isinstance(error, UsageError) else 500)

    async def send(
        self, scope: Scope, send: Send, error: BasculeError, status: int | None = None
    ) -> None:
        """Send an error response; a WebSocket handshake is refused with the same response."""
        status, body = status or self.status_of(error), self.encode(error)
        headers = error_headers(status)
        if scope["type"] == "http":
            await send_whole(send, status, headers, body)
            return
        start = {"type": "websocket.http.response.start", "status": status, "headers": headers}
        await send(start)
        await send({"type": "websocket.http.response.body", "body": body})
