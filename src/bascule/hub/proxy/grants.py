"""One-time codes that carry a sign-in from the hub's origin to a session's origin."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .signed_cookies import SignIn

_LIFETIME: Final = 30.0
"""Maximum seconds between the hub's redirect and the request that it causes."""
_MAX_GRANTS: Final = 1000


@dataclass(frozen=True, slots=True)
class Grant:
    """The access that a code gives."""

    sign_in: SignIn
    session_id: str
    next_path: str
    """The requested path and query on the session's origin."""


class Grants:
    """Stores codes in memory only: after a restart of the hub a browser needs one more redirect."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._issued: dict[str, tuple[Grant, float]] = {}

    def issue(self, grant: Grant) -> str:
        now = self._clock()
        while self._issued:  # removes expired codes, and the oldest if there are too many
            code, (_, expires) = next(iter(self._issued.items()))
            if expires > now and len(self._issued) < _MAX_GRANTS:
                break
            del self._issued[code]
        code = secrets.token_urlsafe(18)
        self._issued[code] = grant, now + _LIFETIME
        return code

    def redeem(self, code: str, session_id: str) -> Grant | None:
        """The grant of a code, once.

        None for a code that is used, expired, or for a session other than `session_id` (empty: any
        session).
        """
        grant, expires = self._issued.pop(code, (None, 0.0))
        if grant is None or self._clock() >= expires:
            return None
        return grant if session_id in ("", grant.session_id) else None
