"""The deployment's front as browsers and programs meet it: TLS, answers, redirects, cookies."""

from __future__ import annotations

import asyncio
import ipaddress
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
from bascule.link.http import HttpClient, Reply
from bascule.wire import from_json

from .checks import Concern, Trouble

COOKIE: Final = "__Host-Http-bascule"
ENTER: Final = "/_bascule/enter"
PAGE: Final = {"Accept": "text/html", "Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate"}
_TIMEOUT: Final = 30.0
_HOPS: Final = 10
_DAY: Final = 86400.0
_SOON: Final = 14
"""Days before its end at which a certificate is worth a word."""
_REFRESH: Final = re.compile(rb'<meta http-equiv="refresh" content="0;url=([^"]+)"')
_OWN_ORIGINS: Final = (
    "set `sessions_origin` to a wildcard name on a domain that is not the hub's, as "
    "https://*.sessions.example (docs/guides/nginx.md)"
)
_PROXY: Final = "`bascule nginx` writes a configuration in which it is right"


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def is_this_machine(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Front(Closable):
    """Requests to `url`, none of them followed anywhere unasked."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._clients: dict[str, HttpClient] = {}
        self.page_url = self.url
        """Where the hub's page is; on the hub's own machine that is under another name."""
        self.cookie = ""
        """Of the sign-in, as a browser sends it."""
        self.session_origins: list[str] = []
        """Where browsers are led for the sessions that were made, in their order."""

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
    ) -> Reply:
        """At `url`, or at another origin."""
        method, origin = "POST" if form else "GET", origin or self.url
        if origin not in self._clients:
            self._clients[origin] = HttpClient(origin, unreachable=HubUnreachable)
        try:
            return await self._clients[origin].request(
                method, path, headers=headers, body=form, timeout=_TIMEOUT
            )
        except (BasculeError, TimeoutError) as error:
            raise Trouble(
                f"{origin}{path} does not answer: {error}",
                "see that the hub runs, that the proxy in front reaches it, and that no firewall "
                "keeps this machine from it",
            ) from error

    async def page(self, path: str) -> tuple[Reply, str]:
        """As a browser that is signed in, which follows redirects; also where they led."""
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
            if not (led := _led_to(reply)):
                return reply, url
            seen.append(url)
            there = urljoin(url, led)
            if origin_of(there) not in known:
                raise Trouble(
                    f"{url} leads away, to {there}",
                    "the proxy in front redirects, or `public_url` names another address",
                )
            url = there
            if url in seen or len(seen) > _HOPS:
                raise Trouble(
                    f"redirects without end: {' -> '.join((*seen, url))}",
                    "the proxy in front rewrites paths or redirects by itself; it has to pass them "
                    f"on as they are; {_PROXY}",
                )

    # The checks -------------------------------------------------------------------------------

    async def check_tls(self) -> str:
        parts = urlsplit(self.url)
        if parts.scheme == "http":
            if is_this_machine(self.url):
                return "not needed: it is on this machine"
            raise Trouble(
                "plain http: nobody can sign in, since anybody on the way could take the session",
                "put nginx with TLS before the hub (`bascule nginx`), and set `public_url` to its "
                "https address",
            )
        return await asyncio.to_thread(_look_at_certificate, parts.hostname or "", parts.port)

    async def check_hub(self) -> str:
        reply = await self.ask("/health")
        if reply.status in (502, 503, 504):
            raise Trouble(
                f"the proxy in front answers, the hub behind it does not (HTTP {reply.status})",
                "start the hub, and see that the proxy knows its port",
            )
        if 300 <= reply.status < 400:
            there = urljoin(f"{self.url}/health", reply.headers.get("location", ""))
            raise Trouble(
                f"it is redirected to {there}",
                "ask at the address it leads to"
                if origin_of(there) != origin_of(self.url)
                else f"the proxy in front redirects to itself; {_PROXY}",
            )
        said = _said(reply)
        if reply.status == 403:
            raise Trouble(
                str(said.get("message", "it is refused (HTTP 403)")),
                f'set public_url = "{self.url}"; behind a proxy, see that it passes on the Host',
            )
        if reply.status != 200 or said.get("status") != "ok" or "protocol" not in said:
            raise Trouble(
                f"something else answers at {self.url} (HTTP {reply.status})",
                "see which server listens there, and that it passes every path on to the hub",
            )
        return f"version {said['version']} answers"

    async def check_token(self) -> str:
        reply = await self.ask("/api/sessions", self.bearer)
        if reply.status == 200:
            return "it is let in"
        said = str(_said(reply).get("message", f"HTTP {reply.status}"))
        if "missing" in said:
            raise Trouble(
                "the proxy in front does not pass on `Authorization`",
                f"it must not take that header for itself; {_PROXY}",
            )
        raise Trouble(
            said, "`bascule token` on the hub's machine shows one; put it in BASCULE_TOKEN"
        )

    async def check_sign_in(self) -> str:
        form = urlencode({"token": self._token, "next": "/docs"}).encode()
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        self.page_url = await self._page_url()
        own = origin_of(self.page_url)
        reply = await self.ask("/sign-in", {**kind, "Origin": own}, form=form, origin=own)
        text = reply.body.decode(errors="replace")
        if reply.status == 403 and "needs TLS" in text:
            raise Trouble(
                "the hub does not know that people come by https",
                f'set public_url = "{self.url}"',
            )
        if reply.status == 403:
            raise Trouble(
                "the hub takes its own page for another site's: it was asked under another name",
                f'set public_url = "{self.url}"; the proxy in front has to pass on the Host '
                f"(`proxy_set_header Host $http_host`); {_PROXY}",
            )
        if reply.status != 200:
            raise Trouble(f"the sign-in answers with HTTP {reply.status}", _PROXY)
        self.cookie = _ensure_cookie(reply.headers.get("set-cookie", ""))
        known = {**PAGE, "Cookie": f"{COOKIE}={self.cookie}"}
        again = await self.ask("/sign-in?next=/docs", known, origin=own)
        if again.status != 303 or again.headers.get("location") != "/docs":
            raise Trouble(
                "the cookie is set, and not known when it comes back",
                f"the proxy in front must not change cookies on their way; {_PROXY}",
            )
        return "the cookie is HttpOnly, Secure, SameSite=Strict, and is known again"

    async def _page_url(self) -> str:
        """Where a browser is led to sign in: here, or on this machine to a name of the hub's."""
        if not is_this_machine(self.url):
            return self.url
        reply = await self.ask("/sign-in", PAGE)
        there = urljoin(f"{self.url}/sign-in", reply.headers.get("location", ""))
        if urlsplit(there).port != urlsplit(self.url).port:
            raise Trouble(
                f"browsers are led to {origin_of(there)}: the hub was asked under another name",
                f"the proxy in front has to pass on the Host; {_PROXY}",
            )
        return origin_of(there)

    async def check_origins(self, first: str, second: str) -> str:
        """Where browsers are led for two sessions, by the paths of their VS Code."""
        self.session_origins = [await self._origin_for(path) for path in (first, second)]
        one, two = self.session_origins
        hub = origin_of(self.page_url)
        if hub in (one, two):
            raise Concern(
                "sessions share the hub's origin: a page of a session can act as whoever looks at "
                "it, with everything that person may do on this hub",
                _OWN_ORIGINS,
            )
        await self._check_session_name(one)
        if one == two:
            raise Concern(
                f"all sessions share the origin {one}: pages of a session can read and drive the "
                "other sessions of whoever looks at them",
                _OWN_ORIGINS,
            )
        if one.startswith("https:") and _site(hub) == _site(one):
            raise Concern(
                f"sessions ({one}) and the hub share a site: pages of sessions can set cookies for "
                "the hub's name, and sign people out",
                _OWN_ORIGINS,
            )
        return f"each session has its own, such as {one}"

    async def _origin_for(self, path: str) -> str:
        known = {**PAGE, "Cookie": f"{COOKIE}={self.cookie}"}
        reply = await self.ask(path, known, origin=origin_of(self.page_url))
        if reply.status == 503 and b"sessions_origin" in reply.body:
            raise Trouble(
                "sessions have no address for browsers: `sessions_origin` is not set", _OWN_ORIGINS
            )
        there = urljoin(self.page_url + path, reply.headers.get("location", ""))
        if reply.status == 200:
            return origin_of(self.page_url)
        if urlsplit(there).path != ENTER:
            raise Trouble(
                f"{path} does not lead to the session's own origin (HTTP {reply.status})",
                "the proxy in front has to pass /vscode/ on as it is",
            )
        return origin_of(there)

    async def _check_session_name(self, origin: str) -> None:
        """The name resolves, has a certificate, leads to the hub, and shows nothing of it."""
        parts = urlsplit(origin)
        if parts.scheme == "https":
            await asyncio.to_thread(_look_at_certificate, parts.hostname or "", parts.port)
        reply = await self.ask("/health", origin=origin)
        if reply.status != 404:
            raise Trouble(
                f"{origin}/health answers with HTTP {reply.status}; there should be nothing of the "
                "hub under a session's name",
                f"the proxy in front has to pass on the Host; {_PROXY}",
            )


def _look_at_certificate(host: str, port: int | None) -> str:
    context = ssl.create_default_context()
    where = "localhost" if host.endswith(".localhost") else host
    try:
        with (
            socket.create_connection((where, port or 443), timeout=_TIMEOUT) as raw,
            context.wrap_socket(raw, server_hostname=host) as line,
        ):
            until = ssl.cert_time_to_seconds(str((line.getpeercert() or {})["notAfter"]))
    except ssl.SSLCertVerificationError as error:
        raise Trouble(
            f"browsers will not trust the certificate: {error.verify_message}",
            f"get one for {host} that is signed by somebody they know, and give nginx the whole "
            "chain (`bascule nginx --certificate fullchain.pem`)",
        ) from error
    except ssl.SSLError as error:
        raise Trouble(
            f"what listens at {host}:{port or 443} does not speak TLS: {error.reason}",
            "serve it with `ssl`, or ask by http://",
        ) from error
    except OSError as error:
        raise Trouble(
            f"nothing answers at {host}:{port or 443}: {error}",
            "see that the name leads to this machine, that nginx runs, and that its port is open",
        ) from error
    days = (until - time.time()) / _DAY
    if days < _SOON:
        raise Concern(f"the certificate ends in {days:.0f} days", "have it renewed by itself")
    return f"the certificate is good for {days:.0f} days"


def _ensure_cookie(header: str) -> str:
    """Its value. A browser drops a `__Host-` cookie that is not exactly so."""
    pair, *attributes = [part.strip() for part in header.split(";")]
    name, _, value = pair.partition("=")
    if name != COOKIE or not value:
        raise Trouble(
            "the token is right, and no cookie comes with the answer",
            f"the proxy in front drops or renames cookies; {_PROXY}",
        )
    given = {part.lower() for part in attributes}
    lacks = {"secure", "httponly", "path=/", "samesite=strict"} - given
    if any(part.startswith("domain=") for part in given):
        lacks.add("no domain")
    if lacks:
        raise Trouble(
            f"browsers will refuse the cookie: it should have {', '.join(sorted(lacks))}",
            "the proxy in front must not change cookies (proxy_cookie_path, proxy_cookie_domain)",
        )
    return value


def _led_to(reply: Reply) -> str:
    """Where a browser goes on its own; empty for a page that stays."""
    if reply.status in (301, 302, 303, 307, 308):
        return reply.headers.get("location", "")
    found = _REFRESH.search(reply.body)
    return unescape(found[1].decode()) if found else ""


def _site(origin: str) -> str:
    return ".".join((urlsplit(origin).hostname or "").split(".")[-2:])


def _cookies_of(reply: Reply) -> dict[str, str]:
    name, _, value = reply.headers.get("set-cookie", "").partition(";")[0].partition("=")
    return {name.strip(): value.strip()} if name else {}


def _said(reply: Reply) -> dict[str, object]:
    try:
        said = from_json(reply.body)
    except BasculeError:
        return {}
    return said if isinstance(said, dict) else {}
