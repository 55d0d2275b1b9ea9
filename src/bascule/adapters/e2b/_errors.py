"""Error responses in the forms that E2B's clients read: REST, and the Connect protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bascule.core.errors import (
    AccessDenied,
    ActionTimedOut,
    BasculeError,
    ConsentDenied,
    DeniedByRule,
    DirectoryNotEmpty,
    FileTooLarge,
    InvalidState,
    LinkError,
    MessageTooLarge,
    NoSuchPath,
    NoSuchProgram,
    NoSuchSandbox,
    NoSuchSession,
    NotSupported,
    PathExists,
    PathOutsideRoots,
    PermissionRefused,
    ProgramInputClosed,
    QuotaExceeded,
    StorageFailed,
    UsageError,
)
from bascule.hub.replies import ERRORS
from bascule.serving.asgi import JSON, Header, Scope, Send, send_whole
from bascule.wire import to_json

_CODES: Final[tuple[tuple[tuple[type[BasculeError], ...], str], ...]] = (
    ((NoSuchPath, NoSuchProgram), "not_found"),
    ((NoSuchSession, NoSuchSandbox), "unavailable"),
    ((PathExists,), "already_exists"),
    (
        (AccessDenied, ConsentDenied, DeniedByRule, PermissionRefused, PathOutsideRoots),
        "permission_denied",
    ),
    ((InvalidState, ProgramInputClosed, DirectoryNotEmpty), "failed_precondition"),
    ((QuotaExceeded, MessageTooLarge, FileTooLarge, StorageFailed), "resource_exhausted"),
    ((NotSupported,), "unimplemented"),
    ((ActionTimedOut,), "deadline_exceeded"),
    ((LinkError,), "unavailable"),
    ((UsageError,), "invalid_argument"),
)
"""Connect's code for each class of error; the first match counts."""
_STATUSES: Final[Mapping[str, int]] = {
    "invalid_argument": 400,
    "failed_precondition": 400,
    "unauthenticated": 401,
    "permission_denied": 403,
    "not_found": 404,
    "already_exists": 409,
    "resource_exhausted": 429,
    "unimplemented": 501,
    "unavailable": 503,
    "deadline_exceeded": 504,
}
"""HTTP statuses of errors of unary calls, as Connect defines them."""


class SandboxNotRunning(NoSuchSandbox):
    """The sandbox does not exist, or does not run. E2B's proxy uses the same error for both."""

    def __init__(self, sandbox_id: str, why: str = "") -> None:
        # E2B's clients look for these words.
        super().__init__(f"The sandbox was not found: {sandbox_id}{why and f' {why}'}")


def rest_status(error: BasculeError) -> int:
    match error:
        case SandboxNotRunning():
            return 502
        case NoSuchPath() | NoSuchProgram():
            return 404
        case StorageFailed():
            return 507
        case ConsentDenied() | DeniedByRule() | PathOutsideRoots():
            return 403
        case NotSupported():
            return 400
        case _:
            return ERRORS.status_of(error)


async def send_rest_error(scope: Scope, send: Send, error: BasculeError, status: int) -> None:
    """`{code, message}`, where the code is the HTTP status."""
    if scope["type"] != "http":
        await ERRORS.send(scope, send, error, status)
        return
    headers: list[Header] = [JSON]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send_whole(send, status, headers, to_json({"code": status, "message": error.message}))


def connect_error(error: BasculeError) -> tuple[int, Mapping[str, Any]]:
    """The HTTP status and the body of an error of a call of the Connect protocol."""
    code = next((code for classes, code in _CODES if isinstance(error, classes)), "internal")
    return _STATUSES.get(code, 500), {"code": code, "message": error.message}
