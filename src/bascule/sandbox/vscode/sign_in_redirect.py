"""A URL that signs a browser in to VS Code without a password."""

from __future__ import annotations

import hmac
import secrets
import socket
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from bascule.core.contracts import Closable
from bascule.sandbox.settings import ServerSettings
from bascule.serving.listener import Listener

_REFUSED: Final = (
    "This address has no key, or an old one. The full address, which ends in &key=…, is where VS "
    "Code was started: `bascule up` (or `make run`) prints it as `VS Code`, and each start has a "
    "new one."
)


class SignInRedirect(Closable):
    """Sets VS Code's session cookie for browsers that present the key, and redirects them to it.

    Cookies belong to a host, not to a port. So browsers send the cookie to VS Code on another port.
    """

    def __init__(self, server_url: str, *, cookie: str, value: str) -> None:
        self._key = secrets.token_urlsafe(24)
        self._server_url = server_url
        self._cookie = cookie
        self._value = value
        self._listener = Listener(self._app, ServerSettings(key=self._key))
        self._url = ""

    async def start(self) -> None:
        sock = socket.create_server(("127.0.0.1", 0))
        sock.setblocking(False)
        self._url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        await self._listener.start(sock)

    def address(self, folder: Path) -> str:
        """The URL to open in a browser. Anyone who has it can use this VS Code."""
        query = urlencode({"folder": str(folder), "key": self._key}, quote_via=quote, safe="/")
        return f"{self._url}/?{query}"

    async def aclose(self) -> None:
        await self._listener.stop()

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._answer(Request(scope))(scope, receive, send)

    def _answer(self, request: Request) -> Response:
        given = request.query_params.get("key", "")
        if not hmac.compare_digest(given.encode(), self._key.encode()):
            return PlainTextResponse(_REFUSED, 403)
        folder = quote(request.query_params.get("folder", ""))
        answer = RedirectResponse(f"{self._server_url}/?folder={folder}", 303)
        answer.set_cookie(self._cookie, self._value, httponly=True, samesite="lax")
        answer.headers["Cache-Control"] = "no-store"
        answer.headers["Referrer-Policy"] = "no-referrer"
        return answer
