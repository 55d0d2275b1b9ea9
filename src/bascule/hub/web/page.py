"""Serves the files of the hub's page, and the HTML document with the page's key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from bascule.core.errors import InvalidRequest, NoSuchSession
from bascule.core.sessions import SessionId
from bascule.hub.guard import HubHostRules
from bascule.hub.proxy.authentication import AuthenticatedUser, TokenAuthenticator
from bascule.hub.proxy.endpoints import SessionEndpoint
from bascule.hub.proxy.pages import ProxyReply, error_reply, page
from bascule.hub.proxy.proxy import Proxy
from bascule.hub.proxy.request import RequestHead
from bascule.hub.settings import HubSettings
from bascule.hub.sign_in import request_of, send_reply
from bascule.serving.asgi import App, Header, Receive, Scope, Send
from bascule.serving.refusals import Refused

from .access import PageKeys

FILES: Final = Path(__file__).with_name("dist")
"""The files that scripts/web builds; a wheel contains them."""
ASSETS_PREFIX: Final = "/page/"
"""Prefix of the page's scripts, styles and fonts."""

WATCH_PREFIX: Final = "/watch/"
"""Prefix of the pages that show a session's VS Code and, beside it, the actions done there."""

_ROUTES: Final = ("/sessions", "/windows", "/approvals", "/people", "/status", "/demo", "/watch")
_INDEX: Final = "index.html"
_KEY_PLACEHOLDER: Final = b"%BASCULE_KEY%"
_CONTENT_TYPES: Final[Mapping[str, bytes]] = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".woff2": b"font/woff2",
}
_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; %s"
    b"style-src 'self' 'unsafe-inline'; "  # xterm.js creates style sheets
    b"img-src 'self' blob: data:; font-src 'self'; connect-src 'self'; base-uri 'none'; "
    b"form-action 'self'; frame-ancestors 'none'; "
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
_FRAME_POLICY: Final = b"frame-src 'self' %s; "
"""'self' is needed because opening a session starts with a redirect from the hub's origin."""


def _document_headers(policy: bytes, opener_policy: bytes) -> tuple[Header, ...]:
    return (
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-security-policy", policy),
        (b"cross-origin-opener-policy", opener_policy),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
        (b"referrer-policy", b"same-origin"),
        (b"cache-control", b"no-store"),
    )


_DOCUMENT_HEADERS: Final = _document_headers(_POLICY % b"", b"same-origin")
_NOT_BUILT: Final = (
    "<p>The page's files are missing. In a clone of the repository, build them with "
    "<code>scripts/web</code>, which needs Node 20.</p>"
)


def is_built() -> bool:
    """Whether the page was built. This function blocks."""
    return (FILES / _INDEX).is_file()


def is_page_path(path: str) -> bool:
    """Whether the page's own router handles this path."""
    return path == "/" or path.startswith(ASSETS_PREFIX) or _is_below(path, _ROUTES)


def with_page_paths(app: App, page_app: App) -> App:
    """An app that serves the page's paths with `page_app` and all others with `app`."""

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        is_own = scope["type"] == "http" and is_page_path(scope["path"])
        await (page_app if is_own else app)(scope, receive, send)

    return route


class WebPage:
    """The ASGI app for the page's paths. It is not behind the guard, so it checks hosts itself."""

    def __init__(
        self,
        settings: HubSettings,
        proxy: Proxy,
        authenticator: TokenAuthenticator,
        keys: PageKeys,
        *,
        owner_of: Callable[[SessionId], str | None] = lambda _: None,
        files: Path = FILES,
    ) -> None:
        """`owner_of` returns the owner of a session; None if there is no such session."""
        self._host_rules = HubHostRules(settings)
        self._proxy = proxy
        self._authenticator = authenticator
        self._keys = keys
        self._owner_of = owner_of
        self._files = _Files(files)

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        request = request_of(scope)
        try:
            self._host_rules.checked_headers(request.headers)
            reply = await self._answer(scope["path"], request)
        except Refused as refused:
            reply = error_reply(refused.status, refused.error, is_page=request.is_page)
        if request.method == b"HEAD":
            reply = ProxyReply(reply.status, reply.headers)
        await send_reply(send, reply)

    async def _answer(self, path: str, request: RequestHead) -> ProxyReply:
        if request.method not in (b"GET", b"HEAD"):
            raise Refused(405, InvalidRequest(f"{request.method.decode()} is not allowed here"))
        if path.startswith(ASSETS_PREFIX):
            return await self._files.asset(path.removeprefix(ASSETS_PREFIX))
        access_control = self._proxy.access_control
        if reply := access_control.refuse_plain_http(request):
            return reply
        if reply := access_control.redirect_to_page_host(request):
            return reply
        user = await self._authenticator.by_hub_cookie(request)
        if user is None or user.sign_in is None:
            return access_control.session_sign_in.redirect_to_sign_in(request)
        document = await self._files.document()
        if document is None:
            return page(503, "The page is not built", _NOT_BUILT)
        session_id = self._watched_session(path, user)
        key = self._keys.of(user.sign_in, session_id) if _is_visit(request) else ""
        headers = _DOCUMENT_HEADERS
        if session_id:
            headers = _watch_headers(
                access_control.origins.session_origin(request.host, session_id)
            )
        return ProxyReply(200, headers, document.replace(_KEY_PLACEHOLDER, key.encode()))

    def _watched_session(self, path: str, user: AuthenticatedUser) -> str:
        """The session whose VS Code the page shows, for its owner only; empty for none."""
        if not path.startswith(WATCH_PREFIX):
            return ""
        session_id = path.removeprefix(WATCH_PREFIX)
        owner = self._owner_of(SessionId(session_id))
        if owner is None or not user.may_access(SessionEndpoint("vscode", session_id), owner):
            raise Refused(404, NoSuchSession(f"You have no session at {path[:200]}"))
        return session_id


class _Files:
    """The page's files, read once: they do not change while the hub runs."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._cache: dict[str, bytes] | None = None

    async def document(self) -> bytes | None:
        return (await self._all()).get(_INDEX)

    async def asset(self, name: str) -> ProxyReply:
        body = (await self._all()).get(f"page/{name}")
        if body is None:
            raise Refused(404, InvalidRequest(f"The page has no file {name!r}"))
        content_type = _CONTENT_TYPES.get(PurePosixPath(name).suffix, b"application/octet-stream")
        headers: tuple[Header, ...] = (
            (b"content-type", content_type),
            # A file with new content gets a new name.
            (b"cache-control", b"public, max-age=31536000, immutable"),
            (b"x-content-type-options", b"nosniff"),
            (b"cross-origin-resource-policy", b"same-origin"),
        )
        return ProxyReply(200, headers, body)

    async def _all(self) -> dict[str, bytes]:
        if self._cache is None:
            files = await asyncio.to_thread(_read, self._root)
            self._cache = files if _INDEX in files else None  # the page may be built later
            return files
        return self._cache


def _read(root: Path) -> dict[str, bytes]:
    """All files below `root`, by relative path. This function blocks."""
    return {
        each.relative_to(root).as_posix(): each.read_bytes()
        for each in root.rglob("*")
        if each.is_file()
    }


def _is_visit(request: RequestHead) -> bool:
    """Whether a person navigates to the page. A script that fetches it gets no key."""
    return (
        request.header(b"sec-fetch-mode") == b"navigate"
        and request.header(b"sec-fetch-dest") == b"document"
    )


def _watch_headers(session_origin: str) -> tuple[Header, ...]:
    """Headers for a page that frames a session: windows opened there cannot access the page."""
    policy = _POLICY % (_FRAME_POLICY % session_origin.encode())
    return _document_headers(policy, b"same-origin-allow-popups")


def _is_below(path: str, parents: tuple[str, ...]) -> bool:
    return any(path == parent or path.startswith(f"{parent}/") for parent in parents)
