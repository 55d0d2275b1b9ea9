"""Secrets that are good once and for a while: nonces of sockets, codes to pair and sign in with."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bascule.core.errors import InvalidNonce, InvalidPairing

Clock = Callable[[], float]

_ALPHABET: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Without those that people confuse: I and 1, O and 0."""
_CODE_LENGTH: Final = 8
_MOST_CODES: Final = 100
_MOST_WRONG: Final = 10
_MOST_SOURCES: Final = 10_000
_MINUTE: Final = 60.0


class Nonces:
    """Ties a registration over HTTP to the socket it is for."""

    def __init__(self, lifetime: float, *, clock: Clock = time.monotonic) -> None:
        self._lifetime = lifetime
        self._clock = clock
        self._given: dict[str, tuple[str, float]] = {}

    def issue(self, sid: str) -> str:
        """A nonce for the socket; one it had before is void."""
        self.withdraw(sid)
        nonce = secrets.token_urlsafe(24)
        self._given[nonce] = sid, self._clock() + self._lifetime
        return nonce

    def redeem(self, nonce: str) -> str:
        """The socket the nonce was for. Raises `InvalidNonce`."""
        sid, expires = self._given.pop(nonce, ("", 0.0))
        if not sid or self._clock() > expires:
            raise InvalidNonce(
                "This nonce was used, is too old, or its socket is gone; connect again for another"
            )
        return sid

    def withdraw(self, sid: str) -> None:
        """The socket is gone, and its nonce with it."""
        for nonce in [each for each, (owner, _) in self._given.items() if owner == sid]:
            del self._given[nonce]


class SignInCodes:
    """What an address holds that signs a browser in, since no token is ever in one.

    A code stands for the token of whoever asked for it, once and for a few minutes, and leads to
    one page of the hub.
    """

    def __init__(self, lifetime: float, *, clock: Clock = time.monotonic) -> None:
        self._lifetime = lifetime
        self._clock = clock
        self._given: dict[str, tuple[str, str, float, int | None]] = {}

    def issue(self, token_hash: str, onward: str, *, uid: int | None = None) -> str:
        """`uid`: the only user of this machine who may redeem it; None: anybody may."""
        now = self._clock()
        self._given = {code: kept for code, kept in self._given.items() if kept[2] > now}
        while len(self._given) >= _MOST_CODES:
            del self._given[next(iter(self._given))]
        code = secrets.token_urlsafe(18)
        self._given[code] = token_hash, onward, now + self._lifetime, uid
        return code

    def user_of(self, code: str) -> int | None:
        """The only user who may redeem it; None when anybody may, or nobody."""
        return self._given[code][3] if code in self._given else None

    def peek(self, code: str, uid: int | None = None) -> tuple[str, str] | None:
        """The same as `redeem` answers, and the code stays good."""
        token_hash, onward, expires, only = self._given.get(code, ("", "", 0.0, None))
        is_good = token_hash and self._clock() < expires and only in (None, uid)
        return (token_hash, onward) if is_good else None

    def redeem(self, code: str, uid: int | None = None) -> tuple[str, str] | None:
        """The token's hash and where it leads; None for a code that is wrong, used or too old, or
        that another user than `uid` was given, who can still use it."""
        found = self.peek(code, uid)
        if found is not None:
            del self._given[code]
        return found


@dataclass(frozen=True, slots=True)
class PairingCode:
    """A pairing code that somebody was shown."""

    text: str
    owner: str
    expires: float


class PairingCodes:
    """Short codes that people carry from the hub to a window.

    Wrong codes are counted for each address they come from: after ten within a minute it is refused
    for a minute, and nobody else is. A code is forty random bits and good for minutes, so guessing
    from very many addresses leads nowhere either.
    """

    def __init__(self, lifetime: float, *, clock: Clock = time.time) -> None:
        self._lifetime = lifetime
        self._clock = clock
        self._codes: dict[str, PairingCode] = {}
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()
        """When wrong codes came, by where from; the oldest are forgotten."""

    def issue(self, owner: str) -> PairingCode:
        now = self._clock()
        self._codes = {text: code for text, code in self._codes.items() if code.expires > now}
        if len(self._codes) >= _MOST_CODES:
            raise InvalidPairing(f"{_MOST_CODES} codes wait to be used; use one or wait")
        text = "".join(secrets.choice(_ALPHABET) for _ in range(_CODE_LENGTH))
        code = self._codes[text] = PairingCode(text, owner, now + self._lifetime)
        return code

    def redeem(self, text: str, *, source: str) -> PairingCode:
        """The code, which is void from now on. `source`: the address it comes from. Raises
        `InvalidPairing`."""
        now = self._clock()
        wrong = self._wrong.get(source)
        if wrong is not None and len(wrong) == _MOST_WRONG and now - wrong[-1] < _MINUTE:
            raise InvalidPairing(f"Too many wrong codes came from {source}; try again in a minute")
        code = self._codes.pop(_as_shown(text), None)
        if code is None or code.expires <= now:
            self._count_wrong(source, now)
            raise InvalidPairing("This pairing code is wrong, used or too old; make another")
        return code

    def _count_wrong(self, source: str, now: float) -> None:
        recent = [each for each in self._wrong.pop(source, ()) if now - each < _MINUTE]
        self._wrong[source] = deque([*recent, now], maxlen=_MOST_WRONG)
        while len(self._wrong) > _MOST_SOURCES:
            self._wrong.popitem(last=False)


def _as_shown(text: str) -> str:
    """Spaces, dashes and lower case are how people type; none of them is in a code."""
    return text.replace("-", "").replace(" ", "").upper()
