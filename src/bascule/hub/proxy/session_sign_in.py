"""Signs a browser in to a session's origin, once it is signed in to the hub's origin.

1. The browser asks the hub for `/vscode/{id}/…` or `/apps/{id}-{n}/…`, with the hub's cookie.
2. The hub redirects it to `ENTER` on the session's origin, with a one-time code.
3. The hub answers there too, never the session. It exchanges the code for a cookie of that origin.
4. `ENTERED` checks that the browser kept the cookie, and redirects to the requested path.

Step 3 answers with a page that navigates to step 4, not with a redirect. Browsers then treat the
navigation as same-origin and send the cookie, which does not count in cross-origin requests.
"""

from __future__ import annotations

from html import escape
from typing import Final
from urllib.parse import parse_qs, parse_qsl, quote, urlsplit

from bascule.core.errors import InvalidRequest
from bascule.hub.origins import Origins, SessionHost
from bascule.serving.asgi import Header
from bascule.serving.refusals import Refused

from .authentication import SIGN_IN_SECONDS, Authenticator
from .cookies import session_cookie
from .endpoints import SessionEndpoint, ensure_plain, read_target
from .grants import Grant, Grants
from .pages import ProxyReply, page, redirect
from .request import RequestHead
from .signed_cookies import SignIn

ENTER: Final = "/_bascule/enter"
ENTERED: Final = "/_bascule/entered"
SIGN_IN_PATHS: Final = b"/_bascule/"
"""Prefix of the paths that `SessionSignIn.answer` handles."""
CROSS_ORIGIN_SITES: Final = (b"cross-site", b"same-site")
"""Values of `Sec-Fetch-Site` for requests that a page of another origin started."""

_FOLDER_PARAMETERS: Final = frozenset({"folder", "workspace", "ew"})
"""Query parameters that only choose which folder VS Code shows. Other parameters can make
VS Code load code."""
_FRAME_DESTINATIONS: Final = (b"iframe", b"frame", b"embed", b"object")
_REDIRECT_HTML: Final = (
    '<meta http-equiv="refresh" content="0;url={0}"><p><a href="{0}">Continue</a></p>'
)
_NO_FRAMING: Final[Header] = (b"content-security-policy", b"frame-ancestors 'none'")


def continue_page(location: str, *headers: Header) -> ProxyReply:
    """A page that navigates to `location` by itself.

    A redirect does not work here: after a redirect from another site browsers do not send
    `SameSite=Strict` cookies.
    """
    return page(200, "One moment", _REDIRECT_HTML.format(escape(location)), *headers)


class SessionSignIn:
    """Redirects browsers from the hub's origin to a session's, and back to the hub's sign-in."""

    def __init__(self, origins: Origins, authenticator: Authenticator) -> None:
        self._origins = origins
        self._authenticator = authenticator
        self._grants = Grants()

    # On the hub's origin ----------------------------------------------------------------------

    def cross_origin_navigation(self, request: RequestHead) -> ProxyReply | None:
        """The response to a navigation that a page of another origin started; None for other
        requests.

        Browsers send no strict cookie with it, so the response navigates again from the hub. If
        the URL can make VS Code do more than show a folder, the user must confirm first.
        """
        if request.header(b"sec-fetch-site") not in CROSS_ORIGIN_SITES:
            return None
        target = request.target.decode()
        requested = read_target(request.target)
        query = parse_qsl(urlsplit(target).query, keep_blank_values=True)
        is_vscode = requested is not None and requested.endpoint.kind == "vscode"
        if is_vscode and any(name not in _FOLDER_PARAMETERS for name, _ in query):
            content = (
                "<p>Another page opens VS Code in one of your sessions, with parameters that can "
                f"make it run code:</p><p><code>{escape(target[:500])}</code></p>"
                f'<p><a href="{escape(target)}">Open it</a> only if you trust that page.</p>'
            )
            return page(200, "Open this address?", content, _NO_FRAMING)
        return continue_page(target)

    def redirect_to_sign_in(self, request: RequestHead) -> ProxyReply:
        """Redirect to the sign-in page, which returns signed-in users here.

        After a redirect through another site, Firefox does not send a strict cookie and reports
        `Sec-Fetch-Site: none`. So a missing cookie is certain only in requests that a page of the
        hub started. All others get a page that navigates to the sign-in.
        """
        location = f"/sign-in?next={quote(request.target.decode('latin-1'), safe='')}"
        is_certain = request.header(b"sec-fetch-site") in (b"", b"same-origin")
        return redirect(location) if is_certain else continue_page(location)

    def redirect_to_session(
        self, request: RequestHead, sign_in: SignIn, endpoint: SessionEndpoint, next_path: str
    ) -> ProxyReply:
        """Redirect to the path `next_path` on the session's own origin."""
        origin = self._origins.session_origin(request.host, endpoint.session_id)
        if not origin:
            return _no_origin()
        code = self._grants.issue(Grant(sign_in, endpoint.session_id, next_path))
        return redirect(f"{origin}{ENTER}?code={code}")

    # On a session's origin --------------------------------------------------------------------

    async def answer(
        self, request: RequestHead, host: SessionHost, frames: str
    ) -> ProxyReply | None:
        """The response at `ENTER` and `ENTERED`; None for other paths."""
        path, _, query = request.target.decode().partition("?")
        if path not in (ENTER, ENTERED):
            return None
        if request.method != b"GET":
            raise Refused(405, InvalidRequest(f"{request.method.decode()} is not allowed here"))
        framing = b"content-security-policy", f"frame-ancestors {frames}".encode()
        parameters = {name: values[0] for name, values in parse_qs(query).items()}
        if path == ENTER:
            return self._enter(request, host, parameters.get("code", ""), framing)
        return await self._entered(request, host, parameters.get("next", ""), framing)

    def redirect_to_hub(self, request: RequestHead) -> ProxyReply:
        """Redirect to the same path on the hub's origin, which signs the user in again."""
        return redirect(self._origins.page_origin(request.host) + request.target.decode())

    def _enter(
        self, request: RequestHead, host: SessionHost, code: str, framing: Header
    ) -> ProxyReply:
        grant = self._grants.redeem(code, host.session_id)
        if grant is None:
            # A user who returns to this URL in the browser's history has the cookie already.
            location = f"/vscode/{host.session_id}/" if host.session_id else "/"
            return continue_page(f"{ENTERED}?next={quote(location, safe='')}", framing)
        location = f"{ENTERED}?next={quote(grant.next_path, safe='')}"
        return continue_page(location, framing, self._cookie(request, grant))

    async def _entered(
        self, request: RequestHead, host: SessionHost, next_path: str, framing: Header
    ) -> ProxyReply:
        requested = _endpoint_of(next_path)
        is_own_session = requested is not None and host.session_id in ("", requested.session_id)
        if requested is None or not is_own_session:
            return page(404, "Not found", "<p>Open the session from the hub.</p>", framing)
        if await self._authenticator.by_session_cookie(request, requested) is not None:
            return redirect(next_path)
        again = escape(self._origins.page_origin(request.host) + next_path)
        return page(
            403,
            "No cookie came back",
            "<p>Your browser did not keep the cookie that opens this session. It must allow "
            f"cookies of <code>{escape(request.host)}</code>. Over plain HTTP, Safari keeps no "
            "cookies: use another browser or HTTPS.</p>"
            f'<p><a href="{again}">Try again</a></p>',
            framing,
        )

    def _cookie(self, request: RequestHead, grant: Grant) -> Header:
        endpoint = SessionEndpoint("vscode", grant.session_id)
        value = self._authenticator.session_cookie_value(grant.sign_in, endpoint).encode()
        # In a frame on another site, browsers accept only partitioned cookies: stored per framing
        # site.
        is_framed = request.header(b"sec-fetch-dest") in _FRAME_DESTINATIONS
        same_site = b"None; Partitioned" if is_framed else b"Strict"
        attributes = b"; Path=/; Max-Age=%d; HttpOnly; Secure; SameSite=" % SIGN_IN_SECONDS
        name = session_cookie(grant.session_id)
        return b"set-cookie", name + b"=" + value + attributes + same_site


def _endpoint_of(next_path: str) -> SessionEndpoint | None:
    """The endpoint that a path names; None for other paths and for action servers."""
    try:
        target = next_path.encode("ascii")
        ensure_plain(target)
    except (UnicodeEncodeError, InvalidRequest):
        return None
    requested = read_target(target)
    return (
        requested.endpoint
        if requested is not None and requested.endpoint.kind != "sandbox"
        else None
    )


def _no_origin() -> ProxyReply:
    return page(
        503,
        "Sessions have no address of their own",
        "<p>Pages of a session must not share the hub's origin, or they could act as you. Set "
        "<code>sessions_origin</code>, if possible to a wildcard name on another domain "
        "(<code>https://*.sessions.example</code>). <code>docs/guides/nginx.md</code> describes "
        "the alternatives.</p>",
    )
