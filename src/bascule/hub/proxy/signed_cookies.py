"""Signed cookies that need no table: content, expiry time and a signature only this hub
can make."""

from __future__ import annotations

import hashlib
import hmac
import struct
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_FORM: Final = struct.Struct(">Q8s32s")
_MARK: Final = 24
"""Bytes of a signature."""
_LENGTH: Final = (_FORM.size + _MARK) * 4 // 3  # no padding: 72 bytes
assert (_FORM.size + _MARK) % 3 == 0


@dataclass(frozen=True, slots=True)
class SignIn:
    """A sign-in with a token. The token must still be valid whenever the sign-in is used."""

    id: bytes
    """Eight random bytes that everything made from one sign-in shares."""
    token_hash: str
    expires: int
    """Unix time."""


def secret_of(admin_token: str, purpose: str) -> bytes:
    """A signing key derived from the hub's first token, so cookies survive restarts."""
    return hmac.digest(admin_token.encode(), f"bascule {purpose}".encode(), hashlib.sha256)


class SignedCookies:
    """Signs and verifies cookies. `purpose` prevents using a cookie for something else."""

    def __init__(self, secret: bytes, *, clock: Callable[[], float] = time.time) -> None:
        self._secret = secret
        self._clock = clock

    def sign(self, sign_in: SignIn, purpose: str) -> str:
        body = _FORM.pack(sign_in.expires, sign_in.id, bytes.fromhex(sign_in.token_hash))
        return urlsafe_b64encode(body + self._mark(body, purpose)).decode()

    def verify(self, text: str, purpose: str) -> SignIn | None:
        """The content; None if the signature is wrong, for another purpose, or expired."""
        if len(text) != _LENGTH or not text.isascii():
            return None
        try:
            sealed = urlsafe_b64decode(text)
        except ValueError:
            return None
        body, mark = sealed[:-_MARK], sealed[-_MARK:]
        if len(body) != _FORM.size or not hmac.compare_digest(mark, self._mark(body, purpose)):
            return None
        expires, sign_in_id, token_hash = _FORM.unpack(body)
        if expires <= self._clock():
            return None
        return SignIn(sign_in_id, token_hash.hex(), expires)

    def _mark(self, body: bytes, purpose: str) -> bytes:
        return hmac.digest(self._secret, purpose.encode() + b"\0" + body, hashlib.sha256)[:_MARK]
