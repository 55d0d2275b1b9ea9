"""A client of an OpenID provider: discovery, the exchange of a code, and the check of ID tokens.

PyJWT checks signatures and standard claims (docs/decisions/0019-openid-connect.md). It is imported
when a provider is configured.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import ssl
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from bascule.core.errors import AccessDenied, BasculeError, HubUnreachable, InvalidSetting
from bascule.link.http import HttpClient, HttpReply
from bascule.wire import from_json

from .oidc_settings import OidcSettings, ensure_secure

_TIMEOUT: Final = 15.0
"""Seconds for the provider to answer a request."""
_MAX_REPLY: Final = 1 << 20
"""Maximum bytes of an answer of the provider."""
_MAX_TOKEN: Final = 64 << 10
"""Maximum characters of an ID token."""
_LEEWAY: Final = 60
"""Seconds by which the clocks of hub and provider may differ."""
_DISCOVERY_LIFETIME: Final = 3600.0
"""Seconds until discovery and keys are read again: the provider may have withdrawn a key."""
_FAILURE_LIFETIME: Final = 5.0
"""Seconds in which sign-ins fail at once after a discovery has failed. Anybody may begin one."""
_KEYS_INTERVAL: Final = 60.0
"""Minimum seconds between two requests for the provider's keys because of an unknown key."""
_ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""Accepted signatures: only by private keys. With a symmetric algorithm, the public key or a
guessed client secret could sign a token."""
_REQUIRED_CLAIMS: Final = ("iss", "sub", "aud", "exp", "iat")


@dataclass(frozen=True, slots=True)
class PendingSignIn:
    """What the hub must remember between the redirect to the provider and the callback."""

    state: str
    nonce: str
    verifier: str
    """The secret of PKCE: without it, nobody else can exchange the code."""
    redirect_uri: str
    next_path: str

    @classmethod
    def new(cls, redirect_uri: str, next_path: str) -> PendingSignIn:
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        return cls(state, nonce, verifier, redirect_uri, next_path)


@dataclass(frozen=True, slots=True)
class _Discovery:
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str
    is_secret_in_body: bool
    """Whether the token endpoint reads the client's secret only in the body."""


class OidcClient:
    """Talks to one OpenID provider. If the provider is down, only sign-ins with accounts fail."""

    def __init__(
        self, settings: OidcSettings, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._discovered: tuple[float, _Discovery] | None = None
        self._failed: tuple[float, BasculeError] | None = None
        """When discovery failed last, and why; None after it has worked."""
        self._keys: dict[str, Any] = {}
        self._keys_read = float("-inf")
        self._lock = asyncio.Lock()
        """Held while discovery or keys are read, so that they are read once."""
        self._tls: ssl.SSLContext | None = None

    async def authorization_url(self, pending: PendingSignIn) -> str:
        """The URL of the provider at which a person signs in.

        Raises `HubUnreachable` if the provider does not answer.
        """
        endpoint = (await self._discovery()).authorization_endpoint
        challenge = urlsafe_b64encode(hashlib.sha256(pending.verifier.encode()).digest())
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self._settings.client_id,
                "redirect_uri": pending.redirect_uri,
                "scope": " ".join(self._settings.scopes),
                "state": pending.state,
                "nonce": pending.nonce,
                "code_challenge": challenge.decode().rstrip("="),
                "code_challenge_method": "S256",
            }
        )
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{query}"

    async def claims(self, code: str, pending: PendingSignIn) -> Mapping[str, object]:
        """Exchange a code and return the account's claims.

        Raises `AccessDenied` for a code or token that is not valid, and `HubUnreachable` if the
        provider does not answer.
        """
        discovery = await self._discovery()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": pending.redirect_uri,
            "code_verifier": pending.verifier,
            "client_id": self._settings.client_id,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        secret = self._settings.client_secret
        if secret and discovery.is_secret_in_body:
            form["client_secret"] = secret
        elif secret:
            pair = f"{quote(self._settings.client_id, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        reply = await self._request(
            "POST", discovery.token_endpoint, headers=headers, body=urlencode(form).encode()
        )
        answer = _json_object(reply)
        if reply.status != 200:
            reason = str(answer.get("error", f"status {reply.status}"))[:100]
            raise AccessDenied(
                f"The OpenID provider refused the sign-in ({reason!r}); sign in again"
            )
        claims = await self.verified(answer.get("id_token"), nonce=pending.nonce)
        return {**await self._user_info(discovery, answer, claims), **claims}

    async def verified(self, token: object, *, nonce: str) -> Mapping[str, object]:
        """The claims of an ID token for this hub. Raises `AccessDenied`."""
        import jwt

        if not isinstance(token, str) or len(token) > _MAX_TOKEN:
            raise AccessDenied("The OpenID provider sent no usable ID token")
        try:
            header = jwt.get_unverified_header(token)
            key = await self._key(header)
            claims: dict[str, object] = jwt.decode(
                token,
                key,
                algorithms=_ALGORITHMS,
                audience=self._settings.client_id,
                issuer=self._settings.issuer,
                leeway=_LEEWAY,
                options={"require": list(_REQUIRED_CLAIMS)},
            )
        except jwt.PyJWTError as error:
            raise AccessDenied(f"The ID token is not valid: {error}") from error
        except (ValueError, TypeError, RecursionError) as error:
            raise AccessDenied("The ID token is malformed") from error
        audience, party = claims["aud"], claims.get("azp", self._settings.client_id)
        is_shared = isinstance(audience, list) and len(audience) > 1 and "azp" not in claims
        if party != self._settings.client_id or is_shared:
            raise AccessDenied("The ID token is for another client of the provider")
        given = claims.get("nonce")
        if not isinstance(given, str) or not secrets.compare_digest(given.encode(), nonce.encode()):
            raise AccessDenied("The ID token belongs to another sign-in (its nonce is wrong)")
        return claims

    async def _user_info(
        self, discovery: _Discovery, answer: Mapping[str, object], claims: Mapping[str, object]
    ) -> Mapping[str, object]:
        """Claims that the provider does not put into the ID token."""
        wanted = self._settings.name_claim, self._settings.groups_claim.partition(".")[0]
        token = answer.get("access_token")
        is_complete = all(name in claims for name in wanted)
        if is_complete or not discovery.userinfo_endpoint or not isinstance(token, str):
            return {}
        reply = await self._request(
            "GET", discovery.userinfo_endpoint, headers={"Authorization": f"Bearer {token}"}
        )
        found = _json_object(reply)
        if reply.status != 200 or found.get("sub") != claims["sub"]:
            raise AccessDenied("The OpenID provider did not describe the account that signed in")
        return found

    async def _discovery(self) -> _Discovery:
        async with self._lock:
            now = self._clock()
            if self._discovered is not None and now - self._discovered[0] <= _DISCOVERY_LIFETIME:
                return self._discovered[1]
            if self._failed is not None and now - self._failed[0] <= _FAILURE_LIFETIME:
                error = self._failed[1]
                raise type(error)(error.message) from error
            try:
                found = await self._discover()
            except BasculeError as error:
                self._failed = self._clock(), error
                raise
            self._discovered, self._failed = (now, found), None
            return found

    async def _discover(self) -> _Discovery:
        issuer = self._settings.issuer
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        reply = await self._request("GET", url)
        found = _json_object(reply)
        if reply.status != 200 or found.get("issuer") != issuer:
            raise InvalidSetting(
                f"{url} answers with status {reply.status} and the issuer "
                f"{str(found.get('issuer'))[:200]!r}; set oidc_issuer to the exact issuer"
            )

        def endpoint(name: str) -> str:
            is_local = self._settings.is_on_loopback
            return ensure_secure(name, found.get(name), is_loopback_allowed=is_local)

        methods = found.get("token_endpoint_auth_methods_supported")
        return _Discovery(
            endpoint("authorization_endpoint"),
            endpoint("token_endpoint"),
            endpoint("jwks_uri"),
            endpoint("userinfo_endpoint") if "userinfo_endpoint" in found else "",
            is_secret_in_body=isinstance(methods, list) and "client_secret_basic" not in methods,
        )

    async def _key(self, header: Mapping[str, Any]) -> Any:
        """The provider's key that signed a token. The keys are read again if it is unknown, or if
        they are old. Old keys are not used when the provider does not answer."""
        key_id = header.get("kid", "")
        if not isinstance(key_id, str):
            raise AccessDenied("The ID token names its key in an unknown way")
        async with self._lock:
            age = self._clock() - self._keys_read
        if age > _DISCOVERY_LIFETIME or (key_id not in self._keys and age > _KEYS_INTERVAL):
            discovery = await self._discovery()
            async with self._lock:
                self._keys = await self._read_keys(discovery.jwks_uri)
                self._keys_read = self._clock()
        if not key_id and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        if key_id not in self._keys:
            raise AccessDenied("The ID token is signed by a key that the provider does not publish")
        return self._keys[key_id]

    async def _read_keys(self, url: str) -> dict[str, Any]:
        import jwt

        reply = await self._request("GET", url)
        if reply.status != 200:  # the known keys stay valid
            raise HubUnreachable(
                f"The OpenID provider answers {url} with status {reply.status}; try again later"
            )
        listed = _json_object(reply).get("keys")
        keys: dict[str, Any] = {}
        for each in listed if isinstance(listed, Sequence) else ():
            if not isinstance(each, dict) or each.get("use", "sig") != "sig":
                continue
            try:
                keys[str(each.get("kid", ""))] = jwt.PyJWK(each)
            except jwt.PyJWTError:
                continue  # PyJWT does not know this kind of key; tokens signed with it are refused
        return keys

    async def _request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> HttpReply:
        parts = urlsplit(url)
        if parts.scheme == "https" and self._tls is None:
            self._tls = await asyncio.to_thread(ssl.create_default_context)  # reads files
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        origin = f"{parts.scheme}://{parts.netloc}"
        common = {"Accept": "application/json"}
        try:
            async with (
                asyncio.timeout(_TIMEOUT),
                HttpClient(origin, max_reply=_MAX_REPLY, tls=self._tls) as client,
            ):
                return await client.request(
                    method, target, headers={**common, **(headers or {})}, body=body
                )
        except (BasculeError, TimeoutError) as error:
            raise HubUnreachable(
                f"The OpenID provider at {origin} does not answer; try again later"
            ) from error


def _json_object(reply: HttpReply) -> Mapping[str, object]:
    try:
        value = from_json(reply.body)
    except (BasculeError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
