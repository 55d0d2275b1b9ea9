"""By what the hub's own page is let in: the cookie of the sign-in, and a key in the page itself.

A cookie comes along with whatever a browser sends, also when another page has it sent, and VS Code
and some apps of sessions are pages of this very origin. So the cookie alone is good for nothing
here. The key is in the document, which is handed to a browser that goes there and to no script
that asks for it, and no other page can look into it: it is framed by nobody, and its opener policy
cuts it off from whoever opened it.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Final

from bascule.core.errors import AccessDenied
from bascule.hub.guard import Identify, by_token
from bascule.hub.identity import Identity
from bascule.hub.proxy.doorman import TokenDoorman, Visitor
from bascule.hub.proxy.request import Request
from bascule.hub.proxy.seals import SignIn
from bascule.hub.replies import Refused
from bascule.hub.tokens import Tokens

KEY_HEADER: Final = b"x-bascule-page"
_PROGRAMS: Final = frozenset({b"authorization", b"x-api-key", b"x-session-api-key"})
"""Where programs bring a token; who does is no page."""
_API: Final = "/api/"
_SOCKETS: Final = "/socket.io"


class PageKeys:
    """One for each sign-in, known to no table: only this hub can make it."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def of(self, sign_in: SignIn) -> str:
        mark = hmac.digest(self._secret, sign_in.id + sign_in.token_hash.encode(), hashlib.sha256)
        return urlsafe_b64encode(mark).decode().rstrip("=")

    def is_good(self, key: object, sign_in: SignIn) -> bool:
        return (
            isinstance(key, str)
            and key.isascii()
            and hmac.compare_digest(key.encode(), self.of(sign_in).encode())
        )


def by_token_or_page(tokens: Tokens, doorman: TokenDoorman, keys: PageKeys) -> Identify:
    """Programs are known by their token, the page by its cookie and its key.

    A socket's handshake can bring no key: there the page's origin is asked for, and the key when
    it connects to its namespace (`Feed`).
    """
    with_token = by_token(tokens)

    async def identify(path: str, headers: dict[bytes, bytes]) -> Identity:
        is_page = b"cookie" in headers and not _PROGRAMS & headers.keys()
        if not is_page or not path.startswith((_API, _SOCKETS)):
            return await with_token(path, headers)
        visitor = await signed_in(doorman, headers)
        if visitor is None or visitor.sign_in is None:
            raise Refused(401, AccessDenied("Sign in first"))
        if path.startswith(_SOCKETS):
            if b"origin" not in headers:  # what others there may be is the guard's to see
                raise Refused(403, AccessDenied("A browser names the page that it connects for"))
        elif not keys.is_good(headers.get(KEY_HEADER, b"").decode("latin-1"), visitor.sign_in):
            raise Refused(403, AccessDenied("The page's key is missing or old; load it again"))
        return visitor.identity

    return identify


async def signed_in(doorman: TokenDoorman, headers: Mapping[bytes, bytes]) -> Visitor | None:
    """Whoever signed in to the hub with the browser that sends these headers."""
    request = Request(
        method=b"GET", target=b"/", version="1.1", headers=list(headers.items()), peer=""
    )
    return await doorman.signed_in(request)
