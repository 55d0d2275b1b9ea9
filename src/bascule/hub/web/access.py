"""Authenticates the hub's own page: by the sign-in cookie and a key in the page itself.

A cookie comes along with whatever a browser sends, also when another page has it sent, and VS Code
and some apps of sessions are pages of this very origin. So the cookie alone is good for nothing
here. The key is in the document, which is handed to a browser that goes there and to no script
that asks for it, and no other page can look into it: it is framed by nobody, and its opener policy
cuts it off from whoever opened it.

A page that shows a session's VS Code in a frame cannot keep a secret from it. It has a key of its
own, which is good for the socket alone, and there for no more than that session.
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
from bascule.hub.replies import Refused
from bascule.hub.tokens import Tokens

KEY_HEADER: Final = b"x-bascule-page"
_PROGRAMS: Final = frozenset({b"authorization", b"x-api-key", b"x-session-api-key"})
"""Where programs bring a token; who does is no page."""
_API: Final = "/api/"
_OF: Final = "."
"""Between a session and the rest of a key."""
_SOCKETS: Final = "/socket.io"


class PageKeys:
    """Keys of pages, one for each sign-in. Computed, never stored."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def of(self, sign_in: SignIn, session_id: str = "") -> str:
        """The key of a page.

        With `session_id`: of a page that shows only this session's VS Code.
        """
        signed = sign_in.id + sign_in.token_hash.encode() + session_id.encode()
        mark = urlsafe_b64encode(hmac.digest(self._secret, signed, hashlib.sha256))
        text = mark.decode().rstrip("=")
        return f"{session_id}{_OF}{text}" if session_id else text

    def is_good(self, key: object, sign_in: SignIn) -> bool:
        return (
            isinstance(key, str)
            and key.isascii()
            and hmac.compare_digest(key.encode(), self.of(sign_in).encode())
        )

    @staticmethod
    def is_of_one(key: object) -> bool:
        """Whether the key, if valid, is valid for one session only."""
        return isinstance(key, str) and _OF in key

    def holder(self, key: object, user: AuthenticatedUser) -> Identity | None:
        """The identity of a page with this key on its socket; None if the key is not valid."""
        if user.sign_in is None or not isinstance(key, str) or not key.isascii():
            return None
        session_id = key.rpartition(_OF)[0]
        if not hmac.compare_digest(key.encode(), self.of(user.sign_in, session_id).encode()):
            return None
        if not session_id:
            return user.identity
        return replace(user.identity, scope="session", session_id=session_id)


def by_token_or_page(tokens: Tokens, authenticator: TokenAuthenticator, keys: PageKeys) -> Identify:
    """Authenticates programs by token, and the page by cookie and key.

    A socket's handshake can bring no key: there the page's origin is asked for, and the key when
    it connects to its namespace (`Feed`).
    """
    with_token = by_token(tokens)

    async def identify(path: str, headers: dict[bytes, bytes]) -> Identity:
        is_page = b"cookie" in headers and not _PROGRAMS & headers.keys()
        if not is_page or not path.startswith((_API, _SOCKETS)):
            return await with_token(path, headers)
        user = await signed_in(authenticator, headers)
        if user is None or user.sign_in is None:
            raise Refused(401, AccessDenied("Sign in first"))
        if path.startswith(_SOCKETS):
            if b"origin" not in headers:  # what others there may be is the guard's to see
                raise Refused(403, AccessDenied("The request needs an `Origin` header"))
        elif not keys.is_good(headers.get(KEY_HEADER, b"").decode("latin-1"), user.sign_in):
            raise Refused(403, AccessDenied("The page's key is missing or old; load it again"))
        return user.identity

    return identify


async def signed_in(
    authenticator: TokenAuthenticator, headers: Mapping[bytes, bytes]
) -> AuthenticatedUser | None:
    """The user who signed in to the hub with this browser."""
    request = RequestHead(
        method=b"GET", target=b"/", version="1.1", headers=list(headers.items()), peer=""
    )
    return await authenticator.by_hub_cookie(request)
