"""Who a request comes from: a bearer's token, the cookie of a session, or that of the sign-in."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from bascule.hub.identity import Identity
from bascule.hub.tokens import Tokens, hash_of

from .cookies import HUB_COOKIE, session_cookie, values_of
from .endpoints import SessionEndpoint
from .request import SANDBOX_KEY, RequestHead
from .signed_cookies import SignedCookies, SignIn

LIFETIME: Final = 12 * 3600
"""Seconds that a sign-in lasts."""

_HUB: Final = "hub"


@dataclass(frozen=True, slots=True)
class AuthenticatedUser:
    """Somebody the hub knows, and by what."""

    identity: Identity
    by: Literal["bearer", "session", "sign-in"]
    sign_in: SignIn | None = None

    def may_access(self, endpoint: SessionEndpoint, owner: str) -> bool:
        """Owner only: an admin has no business on pages that run somebody else's code."""
        match self.identity.scope:
            case "session":
                return (
                    self.identity.session_id == endpoint.session_id and self.identity.owner == owner
                )
            case "window":
                return False
            case _:
                return self.identity.owner == owner


class Authenticator(Protocol):
    """What the proxy asks the hub about people."""

    async def authenticate(
        self, request: RequestHead, endpoint: SessionEndpoint
    ) -> AuthenticatedUser | None:
        """Whom it comes from, by a token or a cookie good for the endpoint. None: nobody known."""
        ...

    async def by_bearer_token(
        self, request: RequestHead, endpoint: SessionEndpoint
    ) -> AuthenticatedUser | None:
        """Whom it comes from by the token that a program sends; cookies do not count."""
        ...

    async def by_session_cookie(
        self, request: RequestHead, endpoint: SessionEndpoint
    ) -> AuthenticatedUser | None:
        """Whom it comes from by the cookie of the session's own origin; nothing else counts."""
        ...

    async def by_hub_cookie(self, request: RequestHead) -> AuthenticatedUser | None:
        """Whom it comes from by the cookie of the hub's own origin; nothing else counts."""
        ...

    async def by_token(self, token: str) -> Identity | None:
        """Whose it is; None for a word that is no token of the hub's."""
        ...

    def sign_in(self, token: str) -> tuple[SignIn, str]:
        """Begin one with a token that is known to be good; also its cookie's value."""
        ...

    def session_cookie_value(self, sign_in: SignIn, endpoint: SessionEndpoint) -> str:
        """The value of the cookie that lets into one session."""
        ...


class TokenAuthenticator:
    """Knows people by the hub's tokens, and by cookies that were given for one."""

    def __init__(
        self,
        tokens: Tokens,
        signed_cookies: SignedCookies,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._tokens = tokens
        self._signed_cookies = signed_cookies
        self._clock = clock
        self._ended: dict[bytes, int] = {}
        """Sign-ins that were ended before their time; one is forgotten once it is too old."""

    async def authenticate(
        self, request: RequestHead, endpoint: SessionEndpoint
    ) -> AuthenticatedUser | None:
        return (
            await self.by_bearer_token(request, endpoint)
            or await self.by_session_cookie(request, endpoint)
            or await self.by_hub_cookie(request)
        )

    async def by_bearer_token(
        self, request: RequestHead, endpoint: SessionEndpoint
    ) -> AuthenticatedUser | None:
        identity = await self.by_token(_token_in(request, endpoint))
        return AuthenticatedUser(identity, "bearer") if identity is not None else None

    async def by_session_cookie(
        self, request: RequestHead, endpoint: SessionEndpoint
    ) -> AuthenticatedUser | None:
        own = session_cookie(endpoint.session_id)
        for name, value in _cookies(request):
            found = self._open(value, _session(endpoint)) if name == own else None
            if found and (identity := await self._tokens.identify_hash(found.token_hash)):
                return AuthenticatedUser(identity, "session", found)
        return None

    async def by_token(self, token: str) -> Identity | None:
        return await self._tokens.identify(token) if token else None

    async def by_hub_cookie(self, request: RequestHead) -> AuthenticatedUser | None:
        for name, value in _cookies(request):
            found = self._open(value, _HUB) if name == HUB_COOKIE else None
            if found and (identity := await self._tokens.identify_hash(found.token_hash)):
                return AuthenticatedUser(identity, "sign-in", found)
        return None

    def sign_in(self, token: str) -> tuple[SignIn, str]:
        return self.sign_in_by(hash_of(token))

    def sign_in_by(self, token_hash: str) -> tuple[SignIn, str]:
        """The same, for a token that is known by no more than its hash."""
        made = SignIn(secrets.token_bytes(8), token_hash, int(self._clock()) + LIFETIME)
        return made, self._signed_cookies.sign(made, _HUB)

    async def by_hash(self, token_hash: str) -> Identity | None:
        return await self._tokens.identify_hash(token_hash)

    def session_cookie_value(self, sign_in: SignIn, endpoint: SessionEndpoint) -> str:
        return self._signed_cookies.sign(sign_in, _session(endpoint))

    def sign_out(self, sign_in: SignIn) -> None:
        now = self._clock()
        self._ended = {key: end for key, end in self._ended.items() if end > now}
        self._ended[sign_in.id] = sign_in.expires

    def _open(self, value: bytes, purpose: str) -> SignIn | None:
        found = self._signed_cookies.verify(value.decode("latin-1"), purpose)
        return None if found is None or found.id in self._ended else found


def _cookies(request: RequestHead) -> list[tuple[bytes, bytes]]:
    return [pair for header in request.all(b"cookie") for pair in values_of(header)]


def _token_in(request: RequestHead, endpoint: SessionEndpoint) -> str:
    """What a program brings; clients of an action server know its header and no other."""
    kind, _, token = request.one(b"authorization").decode("latin-1").partition(" ")
    if kind.lower() == "bearer":
        return token.strip()
    return request.one(SANDBOX_KEY).decode("latin-1") if endpoint.kind == "sandbox" else ""


def _session(endpoint: SessionEndpoint) -> str:
    return f"session {endpoint.session_id}"
