"""Keys of single sandboxes: `X-Access-Token` and `E2B-Traffic-Access-Token`.

A key gives access to the contents of one sandbox, with the rights of the token for which it was
made, until that token is revoked. It is computed, not stored, so it stays valid when the hub
restarts. The hub accepts it only for this sandbox.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64encode
from typing import Final

from bascule.hub.identity import Identity
from bascule.hub.tokens import Tokens

_PREFIX: Final = "bske_"


class SandboxKeys:
    def __init__(self, tokens: Tokens, secret: bytes) -> None:
        self._tokens = tokens
        self._secret = secret

    def key_for(self, who: Identity, sandbox_id: str) -> str:
        return f"{_PREFIX}{who.token_hash}.{self._signature(who.token_hash, sandbox_id)}"

    async def identify(self, key: str, sandbox_id: str) -> Identity | None:
        """The identity of the token for which the key was made; None if the key is not for this
        sandbox, or the token is not valid any more."""
        token_hash, _, signature = key.removeprefix(_PREFIX).partition(".")
        if not key.startswith(_PREFIX) or not key.isascii():
            return None
        if not hmac.compare_digest(signature, self._signature(token_hash, sandbox_id)):
            return None
        return await self._tokens.identify_hash(token_hash)

    def _signature(self, token_hash: str, sandbox_id: str) -> str:
        signed = f"{token_hash} {sandbox_id}".encode()
        digest = hmac.digest(self._secret, signed, hashlib.sha256)
        return urlsafe_b64encode(digest).decode().rstrip("=")
