"""Authenticates requests: by bearer token, by session cookie, or by the hub's sign-in cookie."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from bascule.hub.identity import Identity
from bascule.hub.tokens import Tokens, hash_of

from .cookies import HUB_COOKIE, session_cookie, values_of
from .endpoints import SessionEndpoint
from .request import SANDBOX_KEY, RequestHead
from .signed_cookies import SignedCookies, SignIn

SIGN_IN_SECONDS: Final = 12 * 3600
"""Seconds that a sign-in lasts."""

_HUB_PURPOSE: Final = "hub"


@dataclass(frozen=True, slots=True)
class AuthenticatedUser:
    """The identity behind a request, and the credential that proved it."""

    identity: Identity
    proven_by: Literal["bearer", "session", "sign-in"]
    """By a bearer token, by the cookie of a session, or by the hub's sign-in cookie."""
    sign_in: SignIn | None = None

    def may_access(
        self, endpoint: SessionEndpoint, owner: str, others: Collection[str] = ()
    ) -> bool:
        """Whether the user owns the endpoint, or is one of `others`, who may use it too.

        Admins have no access to endpoints of other owners: pages there run another owner's code.
        """
        match self.identity.scope:
            case "session":
                return (
                    self.identity.session_id == endpoint.session_id and self.identity.owner == owner
                )
            case "window" | "viewer":
                return False
            case _:
                return self.identity.owner == owner or self.identity.owner in others


class Authenticator(Protocol):
    """Authenticates requests for the proxy."""

    async def authenticate(
        self, request: RequestHead, endpoint: SessionEndpoint
    ) -> AuthenticatedUser | None:
        """The user, by a token or cookie valid for the endpoint; None if there is none."""
        ...

    async def by_bearer_token(
        self, request: RequestHead, endpoint: SessionEndpoint
    ) -> AuthenticatedUser | None:
        """The user, by the token that a program sends; cookies are ignored."""
        ...

    async def by_session_cookie(
        self, request: RequestHead, endpoint: SessionEndpoint
    ) -> AuthenticatedUser | None:
        """The user, by the cookie of the session's own origin only."""
        ...

    async def by_hub_cookie(self, request: RequestHead) -> AuthenticatedUser | None:
        """The user, by the cookie of the hub's own origin only."""
        ...

    async def by_token(self, token: str) -> Identity | None:
        """The identity behind a token; None if it is not a valid token of this hub."""
        ...

    def sign_in(self, token: str) -> tuple[SignIn, str]:
        """Start a sign-in with a valid token; returns the sign-in and the value of its cookie."""
        ...

    def session_cookie_value(self, sign_in: SignIn, endpoint: SessionEndpoint) -> str:
        """The value of the cookie that gives access to one session."""
        ...


class TokenAuthenticator:
    """Authenticates by the hub's tokens, and by cookies issued for them."""

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
        """Expiry times of sign-ins that were signed out, by id. Expired ones are removed."""

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
        token = _token_in(request, endpoint)
        identity = await self._tokens.identify(token) if token else None
        return AuthenticatedUser(identity, "bearer") if identity is not None else None

    async def by_session_cookie(
        self, request: RequestHead, endpoint: SessionEndpoint
    ) -> AuthenticatedUser | None:
        cookie_name = session_cookie(endpoint.session_id)
        for name, value in _cookies(request):
            sign_in = (
                self._verify(value, _session_purpose(endpoint)) if name == cookie_name else None
            )
            if sign_in and (identity := await self._tokens.identify_hash(sign_in.token_hash)):
                return AuthenticatedUser(identity, "session", sign_in)
        return None

    async def by_token(self, token: str) -> Identity | None:
        return await self._tokens.identify(token) if token else None

    async def by_hub_cookie(self, request: RequestHead) -> AuthenticatedUser | None:
        for name, value in _cookies(request):
            sign_in = self._verify(value, _HUB_PURPOSE) if name == HUB_COOKIE else None
            if sign_in and (identity := await self._tokens.identify_hash(sign_in.token_hash)):
                return AuthenticatedUser(identity, "sign-in", sign_in)
        return None

    def sign_in(self, token: str) -> tuple[SignIn, str]:
        return self.sign_in_with_hash(hash_of(token))

    def sign_in_with_hash(self, token_hash: str) -> tuple[SignIn, str]:
        """Start a sign-in for a token of which only the hash is known."""
        sign_in = SignIn(secrets.token_bytes(8), token_hash, int(self._clock()) + SIGN_IN_SECONDS)
        return sign_in, self._signed_cookies.sign(sign_in, _HUB_PURPOSE)

    async def by_token_hash(self, token_hash: str) -> Identity | None:
        return await self._tokens.identify_hash(token_hash)

    def session_cookie_value(self, sign_in: SignIn, endpoint: SessionEndpoint) -> str:
        return self._signed_cookies.sign(sign_in, _session_purpose(endpoint))

    def sign_out(self, sign_in: SignIn) -> None:
        now = self._clock()
        self._ended = {key: end for key, end in self._ended.items() if end > now}
        self._ended[sign_in.id] = sign_in.expires

    def _verify(self, value: bytes, purpose: str) -> SignIn | None:
        sign_in = self._signed_cookies.verify(value.decode("latin-1"), purpose)
        return None if sign_in is None or sign_in.id in self._ended else sign_in


def _cookies(request: RequestHead) -> list[tuple[bytes, bytes]]:
    return [pair for header in request.header_values(b"cookie") for pair in values_of(header)]


def _token_in(request: RequestHead, endpoint: SessionEndpoint) -> str:
    """The token that a program sends. Clients of an action server may use `SANDBOX_KEY`."""
    kind, _, token = request.header(b"authorization").decode("latin-1").partition(" ")
    if kind.lower() == "bearer":
        return token.strip()
    return request.header(SANDBOX_KEY).decode("latin-1") if endpoint.kind == "sandbox" else ""


def _session_purpose(endpoint: SessionEndpoint) -> str:
    return f"session {endpoint.session_id}"
