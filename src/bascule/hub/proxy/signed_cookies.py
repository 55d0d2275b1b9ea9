"""Signed cookies, which need no table: content, expiry time and a signature of this hub."""

from __future__ import annotations

import hashlib
import hmac
import struct
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_CONTENT: Final = struct.Struct(">Q8s32s")
_SIGNATURE_BYTES: Final = 24
"""Bytes of a signature, which is a truncated HMAC."""
_COOKIE_LENGTH: Final = (_CONTENT.size + _SIGNATURE_BYTES) * 4 // 3  # no padding: 72 bytes
assert (_CONTENT.size + _SIGNATURE_BYTES) % 3 == 0


@dataclass(frozen=True, slots=True)
class SignIn:
    """A sign-in with a token. The token must still be valid whenever the sign-in is used."""

    id: bytes
    """Eight random bytes, shared by all cookies of one sign-in."""
    token_hash: str
    expires: int
    """Unix time."""


def secret_of(admin_token: str, purpose: str) -> bytes:
    """A signing key derived from the hub's first token, so cookies survive restarts."""
    return hmac.digest(admin_token.encode(), f"bascule {purpose}".encode(), hashlib.sha256)


class SignedCookies:
    """Signs and verifies cookies. A cookie is valid only for the `purpose` it was signed for."""

    def __init__(self, secret: bytes, *, clock: Callable[[], float] = time.time) -> None:
        self._secret = secret
        self._clock = clock
        # A browser sends the same cookie with every request. Only the check of the signature is
        # cached; expiry, sign-out and the token are checked each time.
        self._content = lru_cache(maxsize=1024)(self._read)

    def sign(self, sign_in: SignIn, purpose: str) -> str:
        body = _CONTENT.pack(sign_in.expires, sign_in.id, bytes.fromhex(sign_in.token_hash))
        return urlsafe_b64encode(body + self._signature(body, purpose)).decode()

    def verify(self, text: str, purpose: str) -> SignIn | None:
        """The content; None if the cookie is expired, or its signature wrong for `purpose`."""
        if len(text) != _COOKIE_LENGTH or not text.isascii():
            return None
        sign_in = self._content(text, purpose)
        return None if sign_in is None or sign_in.expires <= self._clock() else sign_in

    def _read(self, text: str, purpose: str) -> SignIn | None:
        """The content if the signature is valid, even if the cookie is expired."""
        try:
            decoded = urlsafe_b64decode(text)
        except ValueError:
            return None
        body, signature = decoded[:-_SIGNATURE_BYTES], decoded[-_SIGNATURE_BYTES:]
        if len(body) != _CONTENT.size or not hmac.compare_digest(
            signature, self._signature(body, purpose)
        ):
            return None
        expires, sign_in_id, token_hash = _CONTENT.unpack(body)
        return SignIn(sign_in_id, token_hash.hex(), expires)

    def _signature(self, body: bytes, purpose: str) -> bytes:
        return hmac.digest(self._secret, purpose.encode() + b"\0" + body, hashlib.sha256)[
            :_SIGNATURE_BYTES
        ]
