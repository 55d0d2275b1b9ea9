"""Responses of the action server: parcels, and errors with their HTTP status.

The body of every error is `{"detail": text, "error": {"code", "message", "detail"}}`. OpenHands'
clients and people read `detail`; Bascule's clients read `error`. Clients take 404, 502, 503 and 504
to mean that the sandbox no longer exists or is paused. Of these the server sends only 503, when it
stops.
"""

from __future__ import annotations

from bascule.core.errors import (
    AccessDenied,
    BasculeError,
    DirectoryNotEmpty,
    EditConflict,
    InvalidAction,
    MessageTooLarge,
    PathExists,
    SandboxDied,
)
from bascule.serving.asgi import Send, send_whole
from bascule.serving.refusals import ErrorResponses
from bascule.wire import error_to_wire, to_json
from bascule.wire.parcel import MEDIA_TYPE

_PARCEL = (b"content-type", MEDIA_TYPE.encode())


def error_body(error: BasculeError) -> bytes:
    return to_json({"detail": error.message, "error": error_to_wire(error)})


ERRORS = ErrorResponses(
    {
        AccessDenied: 403,
        MessageTooLarge: 413,
        InvalidAction: 422,
        PathExists: 409,
        DirectoryNotEmpty: 409,
        EditConflict: 409,
        SandboxDied: 503,
    },
    error_body,
)


async def send_parcel(send: Send, parcel: tuple[bytes, bytes]) -> None:
    await send_whole(send, 200, [_PARCEL], *parcel)
