"""Secrets that can be used once and expire: nonces of sockets, codes for pairing and sign-in."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from bascule.core.errors import InvalidNonce, InvalidPairing

Clock = Callable[[], float]

_ALPHABET: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Without characters that people confuse: I and 1, O and 0."""
_CODE_LENGTH: Final = 8
_MAX_CODES: Final = 100
_MAX_WRONG_CODES: Final = 10
_MAX_SOURCES: Final = 10_000
_MINUTE: Final = 60.0


class Nonces:
    """Nonces that tie a registration over HTTP to its socket."""

    def __init__(self, lifetime: float, *, clock: Clock = time.monotonic) -> None:
        self._lifetime = lifetime
        self._clock = clock
        self._issued: dict[str, tuple[str, float]] = {}
        """The socket and the expiry time of each nonce."""

    def issue(self, sid: str) -> str:
        """A new nonce for the socket. An earlier nonce of the socket becomes invalid."""
        self.withdraw(sid)
        nonce = secrets.token_urlsafe(24)
        self._issued[nonce] = sid, self._clock() + self._lifetime
        return nonce

    def redeem(self, nonce: str) -> str:
        """The socket of the nonce, which becomes invalid. Raises `InvalidNonce`."""
        sid, expires = self._issued.pop(nonce, ("", 0.0))
        if not sid or self._clock() > expires:
            raise InvalidNonce(
                "This nonce was used, is too old, or its socket is gone; connect again for another"
            )
        return sid

    def withdraw(self, sid: str) -> None:
        """Invalidate the nonce of a socket that is gone."""
        for nonce in [each for each, (owner, _) in self._issued.items() if owner == sid]:
            del self._issued[nonce]


class _SignInCode(NamedTuple):
    token_hash: str
    next_path: str
    expires: float
    uid: int | None
    """The only user of this machine who may redeem the code; None: anyone."""


class SignInCodes:
    """Codes in URLs that sign a browser in; tokens are never put in URLs.

    A code replaces the token of the caller who requested it. It is valid once, for a few minutes,
    and leads to one page of the hub.
    """

    def __init__(self, lifetime: float, *, clock: Clock = time.monotonic) -> None:
        self._lifetime = lifetime
        self._clock = clock
        self._issued: dict[str, _SignInCode] = {}

    def issue(self, token_hash: str, next_path: str, *, uid: int | None = None) -> str:
        """A new code, which leads to `next_path`.

        `uid`: the only user of this machine who may redeem the code; None: anyone.
        """
        now = self._clock()
        self._issued = {
            code: issued for code, issued in self._issued.items() if issued.expires > now
        }
        while len(self._issued) >= _MAX_CODES:
            del self._issued[next(iter(self._issued))]
        code = secrets.token_urlsafe(18)
        self._issued[code] = _SignInCode(token_hash, next_path, now + self._lifetime, uid)
        return code

    def user_of(self, code: str) -> int | None:
        """The only user who may redeem the code; None for anyone, or for an invalid code."""
        return self._issued[code].uid if code in self._issued else None

    def peek(self, code: str, uid: int | None = None) -> tuple[str, str] | None:
        """The same result as `redeem`, but the code stays valid."""
        issued = self._issued.get(code)
        if issued is None or self._clock() >= issued.expires or issued.uid not in (None, uid):
            return None
        return issued.token_hash, issued.next_path

    def redeem(self, code: str, uid: int | None = None) -> tuple[str, str] | None:
        """The token's hash and the path to open. The code becomes invalid.

        None for a code that is wrong, used or expired. Also None for a code that is reserved for a
        user other than `uid`; that user can still redeem it.
        """
        found = self.peek(code, uid)
        if found is not None:
            del self._issued[code]
        return found


@dataclass(frozen=True, slots=True)
class PairingCode:
    """A pairing code shown to a person."""

    text: str
    owner: str
    expires: float


class PairingCodes:
    """Short codes that people type from the hub into a window.

    Wrong codes are counted per client address. After ten within a minute, that address is refused
    for a minute; other addresses are not. A code has 40 random bits and is valid for minutes, so
    guessing from many addresses does not succeed either.
    """

    def __init__(self, lifetime: float, *, clock: Clock = time.time) -> None:
        self._lifetime = lifetime
        self._clock = clock
        self._codes: dict[str, PairingCode] = {}
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()
        """Times of wrong codes by client address; the oldest addresses are forgotten."""

    def issue(self, owner: str) -> PairingCode:
        now = self._clock()
        self._codes = {text: code for text, code in self._codes.items() if code.expires > now}
        if len(self._codes) >= _MAX_CODES:
            raise InvalidPairing(
                f"{_MAX_CODES} codes are unused; use one or wait until they expire"
            )
        text = "".join(secrets.choice(_ALPHABET) for _ in range(_CODE_LENGTH))
        code = self._codes[text] = PairingCode(text, owner, now + self._lifetime)
        return code

    def redeem(self, text: str, *, source: str) -> PairingCode:
        """The code, which becomes invalid.

        `source`: the client's address. Raises `InvalidPairing`.
        """
        now = self._clock()
        wrong = self._wrong.get(source)
        if wrong is not None and len(wrong) == _MAX_WRONG_CODES and now - wrong[-1] < _MINUTE:
            raise InvalidPairing(f"Too many wrong codes from {source}; try again in a minute")
        code = self._codes.pop(_normalize(text), None)
        if code is None or code.expires <= now:
            self._count_wrong(source, now)
            raise InvalidPairing("This pairing code is wrong, used or too old; make another")
        return code

    def _count_wrong(self, source: str, now: float) -> None:
        recent = [each for each in self._wrong.pop(source, ()) if now - each < _MINUTE]
        self._wrong[source] = deque([*recent, now], maxlen=_MAX_WRONG_CODES)
        while len(self._wrong) > _MAX_SOURCES:
            self._wrong.popitem(last=False)


def _normalize(text: str) -> str:
    """The code without spaces and dashes, in upper case, however people type it."""
    return text.replace("-", "").replace(" ", "").upper()
