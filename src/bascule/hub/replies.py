"""Error responses of the hub: their status, and `{code, message, detail}` as the body."""

from __future__ import annotations

from typing import Final

from bascule.core.errors import (
    AccessDenied,
    AlreadyAnswered,
    EditConflict,
    ForkNotMerged,
    HubUnreachable,
    InvalidAction,
    InvalidPairing,
    InvalidState,
    MessageTooLarge,
    NoSuchCheckpoint,
    NoSuchSession,
    NoSuchUser,
    NoSuchWindow,
    OutcomeUnknown,
    PermissionRefused,
    QuotaExceeded,
    SandboxUnreachable,
    StorageFailed,
    WindowGone,
    WindowTaken,
    WindowUnhealthy,
)
from bascule.serving.refusals import ErrorResponses

ERRORS: Final = ErrorResponses(
    {
        AccessDenied: 403,
        InvalidPairing: 403,
        PermissionRefused: 403,
        NoSuchWindow: 404,
        NoSuchSession: 404,
        NoSuchUser: 404,
        AlreadyAnswered: 409,
        NoSuchCheckpoint: 404,
        InvalidState: 409,
        ForkNotMerged: 409,
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
)
