"""Creates tokens, stores their hashes and identifies their bearers."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final

from bascule.core.errors import InvalidRequest, InvalidSetting, StorageFailed

from .identity import DEFAULT_OWNER, Identity, Scope, TokenRow
from .store import Store

_ADMIN_FILE: Final = "admin-token"
_PREFIX: Final = "bsc_"
"""Prefix of tokens, by which secret scanners recognise them."""


def new_token() -> str:
    """A new token: the prefix and 256 random bits."""
    return f"{_PREFIX}{secrets.token_urlsafe(32)}"


def session_token_name(session_id: str) -> str:
    return f"session {session_id}"


def hash_of(secret: str) -> str:
    """The stored hash of a secret. Secrets are long and random, so a plain hash is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()


@lru_cache(maxsize=1024)
def token_id_of(hashed: str) -> str:
    """The token's id for windows. It is not the hash: the store finds tokens by their hash."""
    return hash_of(f"token id {hashed}")[:32]


def admin_token(state_dir: Path) -> str:
    """The hub's first token, from a file that is created with mode 600 if missing."""
    path = state_dir / _ADMIN_FILE
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            text = path.read_text().strip()
            if not text:
                raise InvalidSetting(f"{path} is empty; remove it to get a new token") from None
            return text
        text = new_token()
        with os.fdopen(descriptor, "w") as file:
            file.write(text + "\n")
    except OSError as error:
        raise StorageFailed(f"The admin token cannot be stored in {path}: {error}") from error
    return text


class Tokens:
    """Identifies the bearers of tokens."""

    def __init__(self, store: Store, admin: str, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._admin = hash_of(admin)
        self._admin_identity = Identity(
            name="admin",
            owner=DEFAULT_OWNER,
            scope="admin",
            token_id=token_id_of(self._admin),
            token_hash=self._admin,
        )
        self._secret = hmac.digest(admin.encode(), b"tokens of sessions", hashlib.sha256)
        self._clock = clock

    async def identify(self, token: str) -> Identity | None:
        """The identity behind a token; None if it is unknown or expired."""
        return await self.identify_hash(hash_of(token))

    async def identify_hash(self, hashed: str) -> Identity | None:
        """The identity behind the hash of a token."""
        if hmac.compare_digest(hashed, self._admin):
            return self._admin_identity
        row = await self._store.find_token(hashed)
        if row is None or (row.expires is not None and row.expires <= self._clock()):
            return None
        return Identity(
            name=row.owner if row.is_sign_in else row.name,
            owner=row.owner,
            scope=row.scope,
            session_id=row.session_id,
            token_id=token_id_of(row.hash),
            token_hash=hashed,
        )

    async def create(
        self,
        name: str,
        scope: Scope,
        *,
        owner: str = DEFAULT_OWNER,
        session_id: str | None = None,
        lifetime: float | None = None,
    ) -> str:
        """Create a token and return it. Only its hash is stored."""
        token = new_token()
        expires = None if lifetime is None else self._clock() + lifetime
        row = TokenRow(
            hash=hash_of(token),
            name=name,
            owner=owner,
            scope=scope,
            session_id=session_id,
            expires=expires,
        )
        await self._store.add_token(row)
        return token

    async def for_sign_in(self, owner: str, scope: Scope, *, lifetime: float) -> str:
        """Create the token of a user's sign-in and return its hash. Nobody learns its secret."""
        token = new_token()
        row = TokenRow(
            hash=hash_of(token),
            name=f"sign-in {owner} {secrets.token_hex(4)}",
            owner=owner,
            scope=scope,
            expires=self._clock() + lifetime,
            is_sign_in=True,
        )
        await self._store.add_token(row)
        return row.hash

    async def end_sign_in(self, token_hash: str) -> bool:
        """Remove the token of a sign-in, so that its cookies are valid nowhere any more."""
        row = await self._store.find_token(token_hash)
        if row is None or not row.is_sign_in:
            return False
        return await self._store.remove_token_hash(token_hash)

    async def for_session(self, session_id: str, *, owner: str) -> str:
        """A token of scope `session`. It is derived from the admin token, so every call returns the
        same token. It is stored under the name `session SESSION_ID`, by which it can be revoked."""
        digest = hmac.digest(self._secret, session_id.encode(), hashlib.sha256)
        token = f"{_PREFIX}{urlsafe_b64encode(digest).decode().rstrip('=')}"
        if await self._store.find_token(hash_of(token)) is None:
            row = TokenRow(
                hash=hash_of(token),
                name=session_token_name(session_id),
                owner=owner,
                scope="session",
                session_id=session_id,
            )
            try:
                await self._store.add_token(row)
            except InvalidRequest:
                # A concurrent call may have added the same token; then it exists now.
                if await self._store.find_token(hash_of(token)) is None:
                    raise
        return token

    async def revoke(self, name: str, *, owner: str | None = None) -> bool:
        """Remove a token: the next call with it is refused. `owner`: only if this owner has it.

        `TokenLeases.sweep` ends the open connections of the token within a second.
        """
        return await self._store.remove_token(name, owner=owner)
