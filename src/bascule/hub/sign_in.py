"""Signing in with a token, for browsers: a page, a cookie, and the way out again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from html import escape
from typing import Final
from urllib.parse import parse_qs, urlsplit

from bascule.core.errors import AccessDenied, InvalidRequest, MessageTooLarge

from .guard import Names
from .once import SignInCodes
from .proxy.cookies import HUB_COOKIE
from .proxy.doorman import LIFETIME, TokenDoorman
from .proxy.pages import Reply, error_reply, page, redirect
from .proxy.places import ensure_plain
from .proxy.proxy import Proxy
from .proxy.request import Header, Request
from .replies import Receive, Refused, Scope, Send
from .settings import HubSettings

_HOME: Final = "/"
PATHS: Final = frozenset({"/sign-in", "/sign-out"})

_UNFRAMED: Final[Header] = (b"content-security-policy", b"frame-ancestors 'none'")
"""Nobody types a token, or signs out, in a page that another one lays over or under."""
_USED: Final = (
    "This address signs in once, and has been used or is too old. `bascule session url --sign-in` "
    "gives another."
)
_MAX_FORM: Final = 8 << 10
_FORM: Final = """{complaint}<form method="post" action="/sign-in">
<p><label>Token <input type="password" name="token" autocomplete="current-password" autofocus
required size="48"></label> <button>Sign in</button></p>
<input type="hidden" name="next" value="{next}"></form>
<p>On the machine of the hub <code>bascule token</code> shows one.</p>"""


class SignInPages:
    """The ASGI app for `PATHS`. No guard stands before it: it looks at names and origins."""

    def __init__(
        self,
        settings: HubSettings,
        proxy: Proxy,
        doorman: TokenDoorman,
        codes: SignInCodes,
        *,
        on_sign_out: Callable[[bytes], Awaitable[None]],
    ) -> None:
        self._on_sign_out = on_sign_out
        self._names = Names(settings)
        self._proxy = proxy
        self._doorman = doorman
        self._codes = codes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = request_of(scope)
        try:
            if scope["type"] != "http":
                raise Refused(400, InvalidRequest("This is no WebSocket"))
            self._names.ensure_welcome(dict(request.headers))
            reply = await self._answer(scope["path"], request, receive)
        except Refused as refused:
            reply = error_reply(refused.status, refused.error, is_page=request.is_page)
        await send_reply(send, reply)

    async def _answer(self, path: str, request: Request, receive: Receive) -> Reply:
        if refused := self._proxy.gate.refuse_plain(request):
            return refused
        match path, request.method:
            case "/sign-in", b"GET" | b"HEAD":
                return await self._show(request)
            case "/sign-in", b"POST":
                return await self._sign_in(await _form(receive))
            case "/sign-out", b"POST":
                return await self._sign_out(request)
        raise Refused(405, InvalidRequest(f"{request.method.decode()} is not done here"))

    async def _show(self, request: Request) -> Reply:
        asked = parse_qs(urlsplit(request.target.decode("latin-1")).query)
        onward = local_path(asked.get("next", [_HOME])[0])
        code = asked.get("code", [""])[0]
        if code and request.method == b"GET" and not _is_early(request):
            found = self._codes.redeem(code)
            if found is not None:
                return await self._let_in(*found)
        if await self._doorman.signed_in(request) is not None:
            return redirect(onward)
        return _sign_in_page(200, onward, _USED if code else "")

    async def _let_in(self, token_hash: str, onward: str) -> Reply:
        if await self._doorman.by_hash(token_hash) is None:
            return _sign_in_page(401, onward, "The token this address stood for has ended.")
        _, value = self._doorman.sign_in_by(token_hash)
        return _signed_in(value, onward)

    async def _sign_in(self, form: dict[str, list[str]]) -> Reply:
        token = form.get("token", [""])[0].strip()
        onward = local_path(form.get("next", [_HOME])[0])
        identity = await self._doorman.token(token)
        if identity is None:
            return _sign_in_page(401, onward, "This token is unknown or has expired.")
        if identity.scope == "window":
            return _sign_in_page(403, onward, "A window's token is for its window alone.")
        _, value = self._doorman.sign_in(token)
        return _signed_in(value, onward)

    async def _sign_out(self, request: Request) -> Reply:
        visitor = await self._doorman.signed_in(request)
        if visitor is not None and visitor.sign_in is not None:
            self._doorman.sign_out(visitor.sign_in)
            self._proxy.end_sign_in(visitor.sign_in.id)
            await self._on_sign_out(visitor.sign_in.id)
        return page(200, "Signed out", "", _UNFRAMED, _cookie(b"", 0))


def request_of(scope: Scope) -> Request:
    """An ASGI request as the proxy knows one."""
    query = scope["query_string"]
    target = scope["raw_path"] + (b"?" + query if query else b"")
    client = scope.get("client")
    return Request(
        method=scope.get("method", "GET").encode(),
        target=target,
        version=scope["http_version"],
        headers=scope["headers"],
        peer=client[0] if client else "",
    )


async def send_reply(send: Send, reply: Reply) -> None:
    headers = [*reply.headers]
    if reply.status != 204:
        headers.append((b"content-length", str(len(reply.body)).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


def _sign_in_page(status: int, onward: str, complaint: str = "") -> Reply:
    said = f"<p><strong>{escape(complaint)}</strong></p>" if complaint else ""
    content = _FORM.format(complaint=said, next=escape(onward))
    return page(status, "Sign in to Bascule", content, _UNFRAMED)


def _signed_in(cookie: str, onward: str) -> Reply:
    # Not a redirect: browsers hold a form's page answerable for where those lead in the end, and
    # keep a strict cookie at home while they follow some that began elsewhere.
    there = f'<meta http-equiv="refresh" content="0;url={escape(onward)}">'
    there += f'<p><a href="{escape(onward)}">Continue</a></p>'
    return page(200, "Signed in", there, _UNFRAMED, _cookie(cookie.encode(), LIFETIME))


def _is_early(request: Request) -> bool:
    """Fetched before anybody asked to see it, which must not use up a code."""
    return b"prefetch" in request.one(b"sec-purpose") + request.one(b"purpose")


def _cookie(value: bytes, lifetime: int) -> Header:
    attributes = b"; Path=/; Max-Age=%d; HttpOnly; Secure; SameSite=Strict" % lifetime
    return b"set-cookie", HUB_COOKIE + b"=" + value + attributes


def local_path(onward: str) -> str:
    """Where to go next, on this hub and nowhere else."""
    try:
        ensure_plain(onward.encode("ascii"))
    except (UnicodeEncodeError, InvalidRequest):
        return _HOME
    return _HOME if onward.startswith(("//", "/\\")) else onward


async def _form(receive: Receive) -> dict[str, list[str]]:
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Refused(400, AccessDenied("The form did not come whole"))
        body += message.get("body", b"")
        if len(body) > _MAX_FORM:
            raise Refused(413, MessageTooLarge("The form is too large", limit=_MAX_FORM))
        if not message.get("more_body", False):
            return parse_qs(body.decode("latin-1"))
