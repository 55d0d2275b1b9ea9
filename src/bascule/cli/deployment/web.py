"""Checks of the deployment's HTTP side: TLS, responses, redirects, cookies."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import time
from collections.abc import Mapping
from html import unescape
from typing import Final
from urllib.parse import urlencode, urljoin, urlsplit

from bascule.core.contracts import Closable
from bascule.core.errors import BasculeError, HubUnreachable
from bascule.link.http import HttpClient, HttpReply
from bascule.serving.request_rules import is_loopback
from bascule.wire import from_json

from .checks import CheckFailed, CheckLimited

COOKIE: Final = "__Host-Http-bascule"
ENTER: Final = "/_bascule/enter"
PAGE: Final = {"Accept": "text/html", "Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate"}
_TIMEOUT: Final = 30.0
_MAX_REDIRECTS: Final = 10
_DAY: Final = 86400.0
_EXPIRY_WARNING_DAYS: Final = 14
"""Days before the expiry of a certificate at which the check warns."""
_REFRESH: Final = re.compile(rb'<meta http-equiv="refresh" content="0;url=([^"]+)"')
_ORIGINS_ADVICE: Final = (
    "set `sessions_origin` to a wildcard on a domain other than the hub's, such as "
    "https://*.sessions.example (docs/guides/nginx.md)"
)
_PROXY_ADVICE: Final = "`bascule nginx` writes a correct configuration"


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def is_this_machine(url: str) -> bool:
    return is_loopback(urlsplit(url).netloc)


class DeploymentClient(Closable):
    """Sends requests to `url` without following redirects."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._clients: dict[str, HttpClient] = {}
        self.page_url = self.url
        """The address of the hub's page. On the hub's own machine it has another host name."""
        self.cookie = ""
        """The value of the sign-in cookie."""
        self.session_origins: list[str] = []
        """The origins to which browsers are redirected for the created sessions, in order."""

    async def aclose(self) -> None:
        for client in self._clients.values():
            await client.aclose()

    @property
    def bearer(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self._token}"}

    async def ask(
        self,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        form: bytes = b"",
        origin: str = "",
    ) -> HttpReply:
        """Send a request to `url`, or to another origin. Raises `CheckFailed` if it fails."""
        method, origin = "POST" if form else "GET", origin or self.url
        if origin not in self._clients:
            self._clients[origin] = HttpClient(origin, unreachable=HubUnreachable)
        try:
            return await self._clients[origin].request(
                method, path, headers=headers, body=form, timeout=_TIMEOUT
            )
        except (BasculeError, TimeoutError) as error:
            raise CheckFailed(
                f"{origin}{path} does not answer: {error}",
                "check that the hub is running, that the reverse proxy reaches it, and "
                "that no firewall blocks this machine",
            ) from error

    async def page(self, path: str) -> tuple[HttpReply, str]:
        """Request a page like a signed-in browser and follow redirects. Returns the reply and the
        final URL."""
        seen: list[str] = []
        own = origin_of(self.page_url)
        cookies: dict[str, dict[str, str]] = {own: {COOKIE: self.cookie}}
        known = {own, *self.session_origins}
        url = own + path
        while True:
            origin = origin_of(url)
            jar = cookies.setdefault(origin, {})
            given = "; ".join(f"{name}={value}" for name, value in jar.items() if value)
            reply = await self.ask(
                url.removeprefix(origin), {**PAGE, "Cookie": given}, origin=origin
            )
            jar |= _cookies_of(reply)
            if not (redirect := _redirect_target(reply)):
                return reply, url
            seen.append(url)
            location = urljoin(url, redirect)
            if origin_of(location) not in known:
                raise CheckFailed(
                    f"{url} redirects to another site, {location}",
                    "the reverse proxy redirects, or `public_url` names another address",
                )
            url = location
            if url in seen or len(seen) > _MAX_REDIRECTS:
                raise CheckFailed(
                    f"redirect loop: {' -> '.join((*seen, url))}",
                    "the reverse proxy rewrites paths or redirects by itself; it must "
                    f"pass paths on unchanged; {_PROXY_ADVICE}",
                )

    # The checks -------------------------------------------------------------------------------

    async def check_tls(self) -> str:
        parts = urlsplit(self.url)
        if parts.scheme == "http":
            if is_this_machine(self.url):
                return "not needed: the hub is on this machine"
            raise CheckFailed(
                "plain HTTP: nobody can sign in, because others on the network could "
                "steal the sign-in",
                "put nginx with TLS in front of the hub (`bascule nginx`), and set "
                "`public_url` to its HTTPS address",
            )
        return await asyncio.to_thread(_look_at_certificate, parts.hostname or "", parts.port)

    async def check_hub(self) -> str:
        reply = await self.ask("/health")
        if reply.status in (502, 503, 504):
            raise CheckFailed(
                f"the reverse proxy answers, but the hub behind it does not (HTTP {reply.status})",
                "start the hub, and check that the reverse proxy has the right port",
            )
        if 300 <= reply.status < 400:
            location = urljoin(f"{self.url}/health", reply.headers.get("location", ""))
            raise CheckFailed(
                f"requests are redirected to {location}",
                "run this check with that address"
                if origin_of(location) != origin_of(self.url)
                else f"the reverse proxy redirects to itself; {_PROXY_ADVICE}",
            )
        answer = _json_of(reply)
        if reply.status == 403:
            raise CheckFailed(
                str(answer.get("message", "the request is refused (HTTP 403)")),
                f'set public_url = "{self.url}"; a reverse proxy must pass on the Host header',
            )
        if reply.status != 200 or answer.get("status") != "ok" or "protocol" not in answer:
            raise CheckFailed(
                f"another server answers at {self.url} (HTTP {reply.status})",
                "check which server listens there, and that it passes every path on to the hub",
            )
        return f"running version {answer['version']}"

    async def check_token(self) -> str:
        reply = await self.ask("/api/sessions", self.bearer)
        if reply.status == 200:
            return "accepted"
        message = str(_json_of(reply).get("message", f"HTTP {reply.status}"))
        if "missing" in message:
            raise CheckFailed(
                "the reverse proxy does not pass on the header `Authorization`",
                f"it must not use that header itself; {_PROXY_ADVICE}",
            )
        raise CheckFailed(
            message,
            "run `bascule token` on the hub's machine, and set BASCULE_TOKEN to what it prints",
        )

    async def check_sign_in(self) -> str:
        form = urlencode({"token": self._token, "next": "/docs"}).encode()
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        self.page_url = await self._page_url()
        own = origin_of(self.page_url)
        reply = await self.ask("/sign-in", {**kind, "Origin": own}, form=form, origin=own)
        text = reply.body.decode(errors="replace")
        if reply.status == 403 and "needs TLS" in text:
            raise CheckFailed(
                "the hub does not know that users open it over HTTPS",
                f'set public_url = "{self.url}"',
            )
        if reply.status == 403:
            raise CheckFailed(
                "the hub rejects its own page as another site's, because the Host header "
                "has another name",
                f'set public_url = "{self.url}"; the reverse proxy must pass on the Host '
                f"header (`proxy_set_header Host $http_host`); {_PROXY_ADVICE}",
            )
        if reply.status != 200:
            raise CheckFailed(f"the sign-in answers with HTTP {reply.status}", _PROXY_ADVICE)
        self.cookie = _ensure_cookie(reply.headers.get("set-cookie", ""))
        known = {**PAGE, "Cookie": f"{COOKIE}={self.cookie}"}
        again = await self.ask("/sign-in?next=/docs", known, origin=own)
        if again.status != 303 or again.headers.get("location") != "/docs":
            raise CheckFailed(
                "the hub sets a cookie but does not accept it afterwards",
                f"the reverse proxy must not change cookies; {_PROXY_ADVICE}",
            )
        return "the cookie is HttpOnly, Secure and SameSite=Strict, and is accepted"

    async def _page_url(self) -> str:
        """The origin at which a browser signs in: `url`, or on this machine the host name to which
        the hub redirects."""
        if not is_this_machine(self.url):
            return self.url
        reply = await self.ask("/sign-in", PAGE)
        location = urljoin(f"{self.url}/sign-in", reply.headers.get("location", ""))
        if urlsplit(location).port != urlsplit(self.url).port:
            raise CheckFailed(
                f"browsers are redirected to {origin_of(location)}, because the Host header "
                "has another name",
                f"the reverse proxy must pass on the Host header; {_PROXY_ADVICE}",
            )
        return origin_of(location)

    async def check_origins(self, first: str, second: str) -> str:
        """Check the origins of two sessions, given the paths of their VS Code."""
        self.session_origins = [await self._origin_for(path) for path in (first, second)]
        one, two = self.session_origins
        hub = origin_of(self.page_url)
        if hub in (one, two):
            raise CheckLimited(
                "sessions share the hub's origin: a page of a session can do everything "
                "on this hub that the user who opens it may do",
                _ORIGINS_ADVICE,
            )
        await self._check_session_name(one)
        if one == two:
            raise CheckLimited(
                f"all sessions share the origin {one}: a page of one session can read and "
                "control the user's other sessions",
                _ORIGINS_ADVICE,
            )
        if one.startswith("https:") and _site(hub) == _site(one):
            raise CheckLimited(
                f"sessions ({one}) and the hub share a site: pages of sessions can set "
                "cookies for the hub and sign users out",
                _ORIGINS_ADVICE,
            )
        return f"each session has its own origin, such as {one}"

    async def _origin_for(self, path: str) -> str:
        known = {**PAGE, "Cookie": f"{COOKIE}={self.cookie}"}
        reply = await self.ask(path, known, origin=origin_of(self.page_url))
        if reply.status == 503 and b"sessions_origin" in reply.body:
            raise CheckFailed(
                "browsers cannot open sessions: `sessions_origin` is not set", _ORIGINS_ADVICE
            )
        location = urljoin(self.page_url + path, reply.headers.get("location", ""))
        if reply.status == 200:
            return origin_of(self.page_url)
        if urlsplit(location).path != ENTER:
            raise CheckFailed(
                f"{path} does not redirect to the session's own origin (HTTP {reply.status})",
                "the reverse proxy must pass on paths below /vscode/ unchanged",
            )
        return origin_of(location)

    async def _check_session_name(self, origin: str) -> None:
        """Check that the host name resolves, has a certificate, reaches the hub, and does not serve
        the hub's own pages."""
        parts = urlsplit(origin)
        if parts.scheme == "https":
            await asyncio.to_thread(_look_at_certificate, parts.hostname or "", parts.port)
        reply = await self.ask("/health", origin=origin)
        if reply.status != 404:
            raise CheckFailed(
                f"{origin}/health answers with HTTP {reply.status}; the hub's own pages "
                "must not be served at a session's address",
                f"the reverse proxy must pass on the Host header; {_PROXY_ADVICE}",
            )


def _look_at_certificate(host: str, port: int | None) -> str:
    context = ssl.create_default_context()
    where = "localhost" if host.endswith(".localhost") else host
    try:
        with (
            socket.create_connection((where, port or 443), timeout=_TIMEOUT) as raw,
            context.wrap_socket(raw, server_hostname=host) as tls_socket,
        ):
            expires = ssl.cert_time_to_seconds(str((tls_socket.getpeercert() or {})["notAfter"]))
    except ssl.SSLCertVerificationError as error:
        raise CheckFailed(
            f"browsers will not trust the certificate: {error.verify_message}",
            f"get a certificate for {host} from a trusted authority, and give nginx the "
            "full chain (`bascule nginx --certificate fullchain.pem`)",
        ) from error
    except ssl.SSLError as error:
        raise CheckFailed(
            f"the server at {host}:{port or 443} does not speak TLS: {error.reason}",
            "enable TLS there (`listen … ssl` in nginx), or use http://",
        ) from error
    except OSError as error:
        raise CheckFailed(
            f"nothing answers at {host}:{port or 443}: {error}",
            "check that the name resolves to the right machine, that nginx is running, "
            "and that its port is open",
        ) from error
    days = (expires - time.time()) / _DAY
    if days < _EXPIRY_WARNING_DAYS:
        raise CheckLimited(
            f"the certificate expires in {days:.0f} days", "set up automatic renewal"
        )
    return f"the certificate is valid for {days:.0f} more days"


def _ensure_cookie(header: str) -> str:
    """The value of the sign-in cookie. Raises `CheckFailed` if attributes are missing, because
    browsers then reject a `__Host-` cookie."""
    pair, *attributes = [part.strip() for part in header.split(";")]
    name, _, value = pair.partition("=")
    if name != COOKIE or not value:
        raise CheckFailed(
            "the token is accepted, but the answer has no cookie",
            f"the reverse proxy drops or renames cookies; {_PROXY_ADVICE}",
        )
    given = {part.lower() for part in attributes}
    missing = {"secure", "httponly", "path=/", "samesite=strict"} - given
    if any(part.startswith("domain=") for part in given):
        missing.add("no domain")
    if missing:
        raise CheckFailed(
            f"browsers will reject the cookie: it must have {', '.join(sorted(missing))}",
            "the reverse proxy must not change cookies (proxy_cookie_path, proxy_cookie_domain)",
        )
    return value


def _redirect_target(reply: HttpReply) -> str:
    """The URL to which a browser is redirected; empty if there is no redirect."""
    if reply.status in (301, 302, 303, 307, 308):
        return reply.headers.get("location", "")
    found = _REFRESH.search(reply.body)
    return unescape(found[1].decode()) if found else ""


def _site(origin: str) -> str:
    return ".".join((urlsplit(origin).hostname or "").split(".")[-2:])


def _cookies_of(reply: HttpReply) -> dict[str, str]:
    name, _, value = reply.headers.get("set-cookie", "").partition(";")[0].partition("=")
    return {name.strip(): value.strip()} if name else {}


def _json_of(reply: HttpReply) -> dict[str, object]:
    try:
        value = from_json(reply.body)
    except BasculeError:
        return {}
    return value if isinstance(value, dict) else {}
