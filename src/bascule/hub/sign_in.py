"""Signs browsers in with a token: the sign-in page, its cookie, and signing out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from html import escape
from typing import Final
from urllib.parse import parse_qs, quote, urlsplit

from bascule.core.errors import AccessDenied, HubUnreachable, InvalidRequest, InvalidSetting
from bascule.serving.asgi import (
    ClientDisconnected,
    Header,
    Receive,
    Scope,
    Send,
    read_body,
    send_whole,
)
from bascule.serving.refusals import Refused
from bascule.serving.request_rules import counted

from .accounts.audit_log import AuditLog
from .accounts.oidc_sign_in import CALLBACK, START, OidcSignIn, forget_pending
from .guard import HubHostRules
from .identity import Identity
from .leases import TokenLeases
from .metrics import HubMetrics
from .one_time_codes import SignInCodes
from .peers import peer_uid
from .proxy.authentication import SIGN_IN_SECONDS, TokenAuthenticator
from .proxy.cookies import HUB_COOKIE
from .proxy.endpoints import ensure_plain
from .proxy.pages import ProxyReply, error_reply, page, redirect
from .proxy.proxy import Proxy
from .proxy.request import RequestHead
from .proxy.session_sign_in import CROSS_ORIGIN_SITES, continue_page
from .settings import HubSettings
from .tokens import Tokens

logger = logging.getLogger(__name__)

_HOME: Final = "/"
PATHS: Final = frozenset({"/sign-in", "/sign-out", START, CALLBACK})

_NO_FRAMING: Final[Header] = (b"content-security-policy", b"frame-ancestors 'none'")
"""Against clickjacking: no page may frame the pages to sign in and out."""
_CODE_IS_USED: Final = (
    "This URL works only once. It has been used or is too old. `bascule session url --sign-in` "
    "prints a new one."
)
_TYPED: Final = "&typed=1"
"""Query parameter of a URL with a code: a person typed or pasted the URL. The page that reloads the
URL adds this parameter."""
_CONFIRM: Final = """<p>{text}</p><form method="post" action="/sign-in">
<input type="hidden" name="code" value="{code}"><p><button>Sign in as {name}</button></p></form>
<p>If you did not request this URL, close this page.</p>"""
_MAX_FORM_BYTES: Final = 8 << 10
_FORM: Final = """{error}<form method="post" action="/sign-in">
<p><label>Token <input type="password" name="token" autocomplete="current-password" autofocus
required size="48"></label> <button>Sign in</button></p>
<input type="hidden" name="next" value="{next}"></form>
<p>On the hub's machine, <code>bascule token</code> prints a token.</p>"""


class SignInPages:
    """The ASGI app for `PATHS`.

    It is not behind the guard, so it checks hosts and origins itself.
    """

    def __init__(
        self,
        settings: HubSettings,
        proxy: Proxy,
        authenticator: TokenAuthenticator,
        codes: SignInCodes,
        *,
        on_sign_out: Callable[[bytes], Awaitable[None]],
        tokens: Tokens,
        leases: TokenLeases,
        metrics: HubMetrics,
        audit: AuditLog,
        oidc: OidcSignIn | None = None,
    ) -> None:
        self._tokens = tokens
        self._leases = leases
        self._metrics = metrics
        self._audit = audit
        self._oidc = oidc
        self._on_sign_out = on_sign_out
        self._host_rules = HubHostRules(settings)
        self._proxy = proxy
        self._authenticator = authenticator
        self._codes = codes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = request_of(scope)
        try:
            if scope["type"] != "http":
                raise Refused(400, InvalidRequest("This path does not accept WebSockets"))
            self._host_rules.checked_headers(request.headers)
            reply = await self._answer(scope, request, receive)
        except ClientDisconnected:
            return
        except (HubUnreachable, InvalidSetting) as error:  # the OpenID provider fails
            logger.warning("%s", error.message)
            reply = self._form_page(503, _HOME, error.message)
        except Refused as refused:
            reply = error_reply(refused.status, refused.error, is_page=request.is_page)
        await send_reply(send, reply)

    async def _answer(self, scope: Scope, request: RequestHead, receive: Receive) -> ProxyReply:
        if refused := self._proxy.access_control.refuse_plain_http(request):
            return refused
        if redirection := self._proxy.access_control.redirect_to_page_host(request):
            return self._to_page_host(request, redirection)
        match scope["path"], request.method:
            case "/sign-in", b"GET" | b"HEAD":
                return await self._sign_in_form(request, scope)
            case "/sign-in", b"POST":
                return await self._sign_in(await _read_form(receive), scope)
            case "/sign-out", b"POST":
                return await self._sign_out(request)
            case str(path), b"GET" if path == START and self._oidc is not None:
                query = parse_qs(urlsplit(request.target.decode("latin-1")).query)
                origin = self._proxy.access_control.origins.page_origin(request.host)
                return await self._oidc.start(origin, local_path(query.get("next", [_HOME])[0]))
            case str(path), b"GET" if path == CALLBACK and self._oidc is not None:
                return await self._finish_oidc(self._oidc, request)
            case str(path), _ if path in (START, CALLBACK) and self._oidc is None:
                raise Refused(404, InvalidRequest("This hub has no OpenID provider"))
        raise Refused(405, InvalidRequest(f"{request.method.decode()} is not allowed here"))

    async def _sign_in_form(self, request: RequestHead, scope: Scope) -> ProxyReply:
        query = parse_qs(urlsplit(request.target.decode("latin-1")).query)
        next_path = local_path(query.get("next", [_HOME])[0])
        code = query.get("code", [""])[0]
        if code and request.method == b"GET" and not _is_prefetch(request):
            uid = await self._uid(code, scope)
            reply = await self._sign_in_with_code(request, code, uid, is_typed="typed" in query)
            if reply is not None:
                return reply
        if await self._authenticator.by_hub_cookie(request) is not None:
            return redirect(next_path)
        return self._form_page(200, next_path, _CODE_IS_USED if code else "")

    def _to_page_host(self, request: RequestHead, redirection: ProxyReply) -> ProxyReply:
        """Send the browser to the page's host.

        A cookie of this host would be sent to the servers on all ports of the machine.
        """
        headers = redirection.headers
        location = next(value for name, value in headers if name == b"location").decode()
        if request.method not in (b"GET", b"HEAD"):
            raise Refused(403, AccessDenied(f"Sign in at {location}, not at {request.host}"))
        # Not a redirect: after one, the browser may not send its strict sign-in cookie there.
        return continue_page(location) if "code=" in location else redirection

    async def _uid(self, code: str, scope: Scope) -> int | None:
        """User id of the browser's process; looked up only for codes reserved for one user."""
        if self._codes.user_of(code) is None:
            return None
        return await asyncio.to_thread(peer_uid, scope.get("client"), scope.get("server"))

    async def _sign_in_with_code(
        self, request: RequestHead, code: str, uid: int | None, *, is_typed: bool
    ) -> ProxyReply | None:
        """Sign in with a one-time code; None if the code is not valid.

        A person who follows somebody else's link does not notice that it signs in (login CSRF). So
        the person must confirm before the browser changes from one account to another.
        """
        site = request.header(b"sec-fetch-site")
        user = await self._authenticator.by_hub_cookie(request)
        again = f"/sign-in?code={quote(code, safe='')}"
        if (
            site in CROSS_ORIGIN_SITES
        ):  # navigate again from this origin: then the browser sends its cookie
            return continue_page(again)
        if site == b"none" and user is None:
            return continue_page(again + _TYPED)
        found = self._codes.peek(code, uid)
        identity = await self._authenticator.by_token_hash(found[0]) if found is not None else None
        if identity is not None:
            is_same_account = user is not None and user.identity == identity
            is_requested = user is None and (is_typed or not site or identity.is_admin)
            if not is_same_account and not is_requested:
                return _confirm_page(code, identity, user.identity if user else None)
        return await self._redeem(code, uid)

    async def _redeem(self, code: str, uid: int | None) -> ProxyReply | None:
        found = self._codes.redeem(code, uid)
        if found is None:
            self._metrics.count_sign_in("link", succeeded=False)
            return None
        return await self._admit(*found)

    async def _admit(self, token_hash: str, next_path: str) -> ProxyReply:
        identity = await self._authenticator.by_token_hash(token_hash)
        self._metrics.count_sign_in("link", succeeded=identity is not None)
        if identity is None:
            message = "The token behind this URL is revoked or expired."
            return self._form_page(401, next_path, message)
        await self._audit.write(identity, "sign-in")
        _, value = self._authenticator.sign_in_with_hash(token_hash)
        return _signed_in_page(value, next_path)

    async def _sign_in(self, form: dict[str, list[str]], scope: Scope) -> ProxyReply:
        token = form.get("token", [""])[0].strip()
        next_path = local_path(form.get("next", [_HOME])[0])
        if code := form.get("code", [""])[0]:
            uid = await self._uid(code, scope)
            return await self._redeem(code, uid) or self._form_page(401, next_path, _CODE_IS_USED)
        identity = await self._authenticator.by_token(token)
        may_sign_in = identity is not None and identity.scope != "window"
        self._metrics.count_sign_in("token", succeeded=may_sign_in)
        if identity is None:
            await self._audit.write(None, "sign-in.refused", reason="unknown token")
            return self._form_page(401, next_path, "This token is unknown or has expired.")
        if identity.scope == "window":
            return self._form_page(403, next_path, "A window's token is only for that window.")
        await self._audit.write(identity, "sign-in")
        _, value = self._authenticator.sign_in(token)
        return _signed_in_page(value, next_path)

    async def _finish_oidc(self, oidc: OidcSignIn, request: RequestHead) -> ProxyReply:
        """Sign in after the provider's redirect. The browser's earlier sign-in is replaced."""
        try:
            token_hash, next_path = await oidc.finish(request)
        except AccessDenied as error:
            self._metrics.count_sign_in("account", succeeded=False)
            refusal = self._form_page(403, _HOME, error.message)
            return ProxyReply(refusal.status, (*refusal.headers, forget_pending()), refusal.body)
        self._metrics.count_sign_in("account", succeeded=True)
        _, value = self._authenticator.sign_in_with_hash(token_hash)
        reply = _signed_in_page(value, local_path(next_path))
        return ProxyReply(reply.status, (*reply.headers, forget_pending()), reply.body)

    def _form_page(self, status: int, next_path: str, error: str = "") -> ProxyReply:
        return _sign_in_page(status, next_path, error, has_accounts=self._oidc is not None)

    async def _sign_out(self, request: RequestHead) -> ProxyReply:
        user = await self._authenticator.by_hub_cookie(request)
        if user is not None and user.sign_in is not None:
            self._authenticator.sign_out(user.sign_in)
            self._proxy.end_sign_in(user.sign_in.id)
            await self._on_sign_out(user.sign_in.id)
            # The token of a sign-in with an account ends with it, on every hub and in every copy of
            # the cookie.
            if await self._tokens.end_sign_in(user.sign_in.token_hash):
                await self._leases.sweep()
            await self._audit.write(user.identity, "sign-out")
        return page(200, "Signed out", "", _NO_FRAMING, _cookie(b"", 0))


def request_of(scope: Scope) -> RequestHead:
    """An ASGI request in the proxy's representation."""
    query = scope["query_string"]
    target = scope["raw_path"] + (b"?" + query if query else b"")
    client = scope.get("client")
    return RequestHead(
        method=scope.get("method", "GET").encode(),
        target=target,
        version=scope["http_version"],
        headers=scope["headers"],
        peer=client[0] if client else "",
    )


async def send_reply(send: Send, reply: ProxyReply) -> None:
    await send_whole(send, reply.status, reply.headers, reply.body)


def _sign_in_page(
    status: int, next_path: str, error: str = "", *, has_accounts: bool
) -> ProxyReply:
    message = f"<p><strong>{escape(error)}</strong></p>" if error else ""
    content = _FORM.format(error=message, next=escape(next_path))
    if has_accounts:
        location = f"{START}?next={quote(next_path, safe='')}"
        account = f'<p><a href="{escape(location)}">Sign in with your account</a></p>'
        content = message + account + _FORM.format(error="", next=escape(next_path))
    return page(status, "Sign in to Bascule", content, _NO_FRAMING)


def _confirm_page(code: str, identity: Identity, current: Identity | None) -> ProxyReply:
    text = f"You are signed in as {current.name} ({current.owner}). " if current else ""
    text += f"This URL signs you in as {identity.name} ({identity.owner})."
    content = _CONFIRM.format(text=escape(text), code=escape(code), name=escape(identity.name))
    return page(200, "Sign in to Bascule?", content, _NO_FRAMING)


def _signed_in_page(cookie: str, next_path: str) -> ProxyReply:
    # Not a redirect: browsers apply the `form-action` policy of the form's page to every redirect
    # that follows, and send no strict cookie after redirects that began on another site.
    content = f'<meta http-equiv="refresh" content="0;url={escape(next_path)}">'
    content += f'<p><a href="{escape(next_path)}">Continue</a></p>'
    return page(200, "Signed in", content, _NO_FRAMING, _cookie(cookie.encode(), SIGN_IN_SECONDS))


def _is_prefetch(request: RequestHead) -> bool:
    """Whether the browser prefetches the page, which must not use up a code."""
    return b"prefetch" in request.header(b"sec-purpose") + request.header(b"purpose")


def _cookie(value: bytes, lifetime: int) -> Header:
    attributes = b"; Path=/; Max-Age=%d; HttpOnly; Secure; SameSite=Strict" % lifetime
    return b"set-cookie", HUB_COOKIE + b"=" + value + attributes


def local_path(next_path: str) -> str:
    """`next_path` if it is a path of this hub, else the home page."""
    try:
        ensure_plain(next_path.encode("ascii"))
    except (UnicodeEncodeError, InvalidRequest):
        return _HOME
    return _HOME if next_path.startswith(("//", "/\\")) else next_path


async def _read_form(receive: Receive) -> dict[str, list[str]]:
    return parse_qs((await read_body(counted(receive, _MAX_FORM_BYTES))).decode("latin-1"))
