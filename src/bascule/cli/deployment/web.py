"""The deployment's front as browsers and programs meet it: TLS, answers, redirects, cookies."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode, urljoin, urlsplit

from bascule.core.contracts import Closable
from bascule.core.errors import BasculeError, HubUnreachable
from bascule.link.http import HttpClient, Reply
from bascule.wire import from_json

from .checks import Concern, Trouble

COOKIE: Final = "__Host-bascule"
PAGE: Final = {"Accept": "text/html", "Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate"}
_TIMEOUT: Final = 30.0
_HOPS: Final = 10
_DAY: Final = 86400.0
_SOON: Final = 14
"""Days before its end at which a certificate is worth a word."""
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
        self._http = HttpClient(self.url, unreachable=HubUnreachable)
        self.cookie = ""
        """Of the sign-in, as a browser sends it."""

    async def aclose(self) -> None:
        await self._http.aclose()

    @property
    def bearer(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self._token}"}

    async def ask(
        self, path: str, headers: Mapping[str, str] | None = None, *, form: bytes = b""
    ) -> Reply:
        method = "POST" if form else "GET"
        try:
            return await self._http.request(
                method, path, headers=headers, body=form, timeout=_TIMEOUT
            )
        except (BasculeError, TimeoutError) as error:
            raise Trouble(
                f"{self.url}{path} does not answer: {error}",
                "see that the hub runs, that the proxy in front reaches it, and that no firewall "
                "keeps this machine from it",
            ) from error

    async def page(self, path: str) -> tuple[Reply, str]:
        """As a browser that is signed in, which follows redirects; also where they led."""
        seen: list[str] = []
        cookies = {COOKIE: self.cookie}
        while True:
            given = "; ".join(f"{name}={value}" for name, value in cookies.items() if value)
            reply = await self.ask(path, {**PAGE, "Cookie": given})
            cookies |= _cookies_of(reply)
            if reply.status not in (301, 302, 303, 307, 308):
                return reply, path
            seen.append(path)
            there = urljoin(f"{self.url}{path}", reply.headers.get("location", ""))
            if origin_of(there) != origin_of(self.url):
                raise Trouble(
                    f"{path} leads away, to {there}",
                    "the proxy in front redirects, or `public_url` names another address",
                )
            parts = urlsplit(there)
            path = parts.path + (f"?{parts.query}" if parts.query else "")
            if path in seen or len(seen) > _HOPS:
                raise Trouble(
                    f"redirects without end: {' -> '.join((*seen, path))}",
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
        reply = await self.ask("/sign-in", {**kind, "Origin": origin_of(self.url)}, form=form)
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
        again = await self.ask("/sign-in?next=/docs", {**PAGE, "Cookie": f"{COOKIE}={self.cookie}"})
        if again.status != 303 or again.headers.get("location") != "/docs":
            raise Trouble(
                "the cookie is set, and not known when it comes back",
                f"the proxy in front must not change cookies on their way; {_PROXY}",
            )
        return "the cookie is HttpOnly, Secure, SameSite=Strict, and is known again"


def _look_at_certificate(host: str, port: int | None) -> str:
    context = ssl.create_default_context()
    try:
        with (
            socket.create_connection((host, port or 443), timeout=_TIMEOUT) as raw,
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


def _cookies_of(reply: Reply) -> dict[str, str]:
    name, _, value = reply.headers.get("set-cookie", "").partition(";")[0].partition("=")
    return {name.strip(): value.strip()} if name else {}


def _said(reply: Reply) -> dict[str, object]:
    try:
        said = from_json(reply.body)
    except BasculeError:
        return {}
    return said if isinstance(said, dict) else {}
