"""Authenticates the hub's own page: by the sign-in cookie and a key in the page itself.

A browser sends the cookie with every request, even with requests that another page causes, and
VS Code and apps of sessions may be pages of the same origin. So the cookie alone gives no access.
The key is in the document, which the hub sends to a browser that navigates to the page, but not to
a script that fetches it. No other page can read the document: it cannot be framed, and its opener
policy separates it from the window that opened it.

A page that shows a session's VS Code in a frame cannot keep a secret from that frame. It gets a
separate key, which is valid only for the socket, and there only for that session.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from bascule.core.errors import AccessDenied
from bascule.hub.guard import Identify, by_token
from bascule.hub.identity import Identity
from bascule.hub.proxy.authentication import AuthenticatedUser, TokenAuthenticator
from bascule.hub.proxy.request import RequestHead
from bascule.hub.proxy.signed_cookies import SignIn
from bascule.hub.tokens import Tokens
from bascule.serving.refusals import Refused

KEY_HEADER: Final = b"x-bascule-page"
_TOKEN_HEADERS: Final = frozenset({b"authorization", b"x-api-key", b"x-session-api-key"})
"""Headers in which programs send a token; the page sends none of them."""
_API_PREFIX: Final = "/api/"
_SEPARATOR: Final = "."
"""Separates the session id from the rest of a key."""
_SOCKETS_PREFIX: Final = "/socket.io"


class PageKeys:
    """Keys of pages: one for each sign-in, and one for each session shown. Computed, not stored."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def of(self, sign_in: SignIn, session_id: str = "") -> str:
        """The key of a page; with `session_id`, of a page that shows this session's VS Code."""
        signed = sign_in.id + sign_in.token_hash.encode() + session_id.encode()
        signature = urlsafe_b64encode(hmac.digest(self._secret, signed, hashlib.sha256))
        text = signature.decode().rstrip("=")
        return f"{session_id}{_SEPARATOR}{text}" if session_id else text

    def is_valid(self, key: object, sign_in: SignIn) -> bool:
        return (
            isinstance(key, str)
            and key.isascii()
            and hmac.compare_digest(key.encode(), self.of(sign_in).encode())
        )

    @staticmethod
    def is_for_one_session(key: object) -> bool:
        """Whether the key is for one session only. Does not check that it is valid."""
        return isinstance(key, str) and _SEPARATOR in key

    def identity_of_holder(self, key: object, user: AuthenticatedUser) -> Identity | None:
        """The identity of a page with this key on its socket; None if the key is not valid."""
        if user.sign_in is None or not isinstance(key, str) or not key.isascii():
            return None
        session_id = key.rpartition(_SEPARATOR)[0]
        if not hmac.compare_digest(key.encode(), self.of(user.sign_in, session_id).encode()):
            return None
        if not session_id:
            return user.identity
        return replace(user.identity, scope="session", session_id=session_id)


def by_token_or_page(tokens: Tokens, authenticator: TokenAuthenticator, keys: PageKeys) -> Identify:
    """Authenticates programs by token, and the page by cookie and key.

    The handshake of a socket cannot carry the key. It needs an `Origin` header instead, and `Feed`
    checks the key when the page connects to its namespace.
    """
    identify_by_token = by_token(tokens)

    async def identify(path: str, headers: dict[bytes, bytes]) -> Identity:
        is_page = b"cookie" in headers and not _TOKEN_HEADERS & headers.keys()
        if not is_page or not path.startswith((_API_PREFIX, _SOCKETS_PREFIX)):
            return await identify_by_token(path, headers)
        user = await signed_in_user(authenticator, headers)
        if user is None or user.sign_in is None:
            raise Refused(401, AccessDenied("Sign in first"))
        if path.startswith(_SOCKETS_PREFIX):
            if b"origin" not in headers:  # the guard has checked its value
                raise Refused(403, AccessDenied("The request needs an `Origin` header"))
        elif not keys.is_valid(headers.get(KEY_HEADER, b"").decode("latin-1"), user.sign_in):
            raise Refused(403, AccessDenied("The page's key is missing or old; reload the page"))
        return user.identity

    return identify


async def signed_in_user(
    authenticator: TokenAuthenticator, headers: Mapping[bytes, bytes]
) -> AuthenticatedUser | None:
    """The user who signed in to the hub with this browser."""
    request = RequestHead(
        method=b"GET", target=b"/", version="1.1", headers=list(headers.items()), peer=""
    )
    return await authenticator.by_hub_cookie(request)
