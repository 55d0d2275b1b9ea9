"""Signs browsers in with an account at an OpenID provider.

1. `START` redirects the browser to the provider, with a cookie that binds the sign-in to it.
2. The provider redirects it to `CALLBACK`, with a code.
3. The hub exchanges the code, finds the user and creates the token of the sign-in.

The cookie is `SameSite=Lax`: browsers send no strict cookie after a redirect from another site. It
holds all that the hub must remember, with a signature, so that any hub can answer the callback.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import asdict
from typing import Final
from urllib.parse import parse_qs, urlsplit

from bascule.core.errors import AccessDenied
from bascule.hub.proxy.authentication import SIGN_IN_SECONDS
from bascule.hub.proxy.cookies import OIDC_COOKIE, values_of
from bascule.hub.proxy.pages import ProxyReply, redirect
from bascule.hub.proxy.request import RequestHead
from bascule.hub.tokens import Tokens
from bascule.serving.asgi import Header
from bascule.wire import from_json, to_json

from .audit_log import AuditLog
from .oidc_client import OidcClient, PendingSignIn
from .oidc_settings import OidcSettings, text_in
from .users import Users

START: Final = "/sign-in/oidc"
CALLBACK: Final = "/sign-in/oidc/callback"

_PENDING_SECONDS: Final = 600
"""Seconds that a person has for signing in at the provider."""
_MAX_NEXT: Final = 1500
"""Maximum characters of the path to return to; browsers limit cookies to 4096 bytes."""
_MAX_CODE: Final = 4096


class OidcSignIn:
    """The two steps of a sign-in with an account. `SignInPages` serves them."""

    def __init__(
        self,
        settings: OidcSettings,
        users: Users,
        tokens: Tokens,
        audit: AuditLog,
        *,
        secret: bytes,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._client = OidcClient(settings)
        self._users = users
        self._tokens = tokens
        self._audit = audit
        self._secret = secret
        self._clock = clock

    async def start(self, origin: str, next_path: str) -> ProxyReply:
        """Redirect to the provider. Raises `HubUnreachable` if it does not answer."""
        next_path = next_path if len(next_path) <= _MAX_NEXT else "/"
        pending = PendingSignIn.new(origin + CALLBACK, next_path)
        location = await self._client.authorization_url(pending)
        return redirect(location, _cookie(self._signed(pending), _PENDING_SECONDS))

    async def finish(self, request: RequestHead) -> tuple[str, str]:
        """The hash of the sign-in's token, and the path to open.

        Raises `AccessDenied` for a callback that this browser did not begin, or an account that may
        not sign in. Every refusal is in the audit log.
        """
        try:
            return await self._finish(request)
        except AccessDenied as error:
            await self._audit.write(None, "sign-in.refused", reason=error.message[:500])
            raise

    async def _finish(self, request: RequestHead) -> tuple[str, str]:
        try:
            query = parse_qs(urlsplit(request.target.decode("latin-1")).query, max_num_fields=20)
        except ValueError:
            raise AccessDenied("The URL has more than 20 parameters; sign in again") from None
        given = {name: values[0] for name, values in query.items() if len(values) == 1}
        pending = self._pending(request)
        state = given.get("state", "").encode("latin-1", "replace")
        if pending is None or not secrets.compare_digest(state, pending.state.encode()):
            raise AccessDenied(
                "This sign-in was not begun in this browser, or more than ten minutes ago; sign in "
                "again"
            )
        code = given.get("code", "")
        if not code or len(code) > _MAX_CODE:
            reason = given.get("error", "no code")[:100]
            raise AccessDenied(f"The OpenID provider refused the sign-in ({reason!r})")
        if given.get("iss", self._settings.issuer) != self._settings.issuer:
            raise AccessDenied("The answer comes from another OpenID provider")
        claims = await self._client.claims(code, pending)
        account = self._settings.account(claims)
        if account is None:
            name = text_in(claims, self._settings.name_claim) or text_in(claims, "sub")
            raise AccessDenied(
                f"The account {name!r} is in no group that may use this hub; ask its admin"
            )
        user = await self._users.signed_in(account)
        token_hash = await self._tokens.for_sign_in(user.name, user.role, lifetime=SIGN_IN_SECONDS)
        who = await self._tokens.identify_hash(token_hash)
        await self._audit.write(who, "sign-in", role=user.role, issuer=account.issuer)
        return token_hash, pending.next_path

    def _signed(self, pending: PendingSignIn) -> bytes:
        content = {**asdict(pending), "expires": int(self._clock()) + _PENDING_SECONDS}
        body = urlsafe_b64encode(to_json(content))
        return body + b"." + self._signature(body)

    def _pending(self, request: RequestHead) -> PendingSignIn | None:
        """The sign-in that this browser began; None if there is none, or if it is too old."""
        for header in request.header_values(b"cookie"):
            for name, value in values_of(header):
                body, _, signature = value.partition(b".")
                if name == OIDC_COOKIE and hmac.compare_digest(signature, self._signature(body)):
                    content = from_json(urlsafe_b64decode(body))
                    if content.pop("expires") > self._clock():
                        return PendingSignIn(**content)
        return None

    def _signature(self, body: bytes) -> bytes:
        return urlsafe_b64encode(hmac.digest(self._secret, body, hashlib.sha256)).rstrip(b"=")


def forget_pending() -> Header:
    """The header with which a browser forgets the sign-in that it began."""
    return _cookie(b"", 0)


def _cookie(value: bytes, lifetime: int) -> Header:
    attributes = b"; Path=/; Max-Age=%d; HttpOnly; Secure; SameSite=Lax" % lifetime
    return b"set-cookie", OIDC_COOKIE + b"=" + value + attributes
