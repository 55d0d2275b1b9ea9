"""Responses that the proxy makes itself: pages, errors and redirects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from http import HTTPStatus
from typing import Final

from bascule.core.errors import BasculeError
from bascule.serving.asgi import Header
from bascule.serving.refusals import encode_error, error_headers
from bascule.serving.uvicorn_internals import STATUS_LINE

_PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 40rem; margin: 15vh auto; padding: 0 }}
h1 {{ font-size: 1.4rem }} code {{ font-size: 0.9em; color: #666 }}
@media (prefers-color-scheme: dark) {{ body {{ background: #1e1e1e; color: #ddd }} }}
</style>
<h1>{title}</h1>
{content}
</html>
"""
PAGE_HEADERS: Final[tuple[Header, ...]] = (
    (b"content-type", b"text/html; charset=utf-8"),
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'",
    ),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"same-origin"),
)
_TITLES: Final[Mapping[int, str]] = {
    400: "Invalid request",
    401: "Sign in first",
    403: "Access denied",
    404: "Not found",
    502: "The session's server does not answer",
    504: "The session's server takes too long",
}


@dataclass(frozen=True, slots=True)
class ProxyReply:
    """A complete response made by the proxy."""

    status: int
    headers: tuple[Header, ...] = ()
    body: bytes = b""

    def encoded(self, *, method: bytes, keep_alive: bool) -> bytes:
        lines = [STATUS_LINE[self.status]]
        lines += [b"%s: %s\r\n" % header for header in self.headers]
        if self.status != 204:
            lines.append(b"content-length: %d\r\n" % len(self.body))
        if not keep_alive:
            lines.append(b"connection: close\r\n")
        return b"".join([*lines, b"\r\n", b"" if method == b"HEAD" else self.body])


def redirect(location: str, *headers: Header, status: int = 303) -> ProxyReply:
    fixed = (b"location", location.encode()), (b"cache-control", b"no-store")
    return ProxyReply(status, (*fixed, (b"referrer-policy", b"no-referrer"), *headers))


def error_reply(status: int, error: BasculeError, *, is_page: bool) -> ProxyReply:
    """An error as a page for people, or as `{code, message, detail}` for programs."""
    if is_page:
        retry = '<p><a href="">Try again</a></p>' if status >= 500 else ""
        content = f"<p>{escape(error.message)}.</p>{retry}<p><code>{error.code}</code></p>"
        return page(status, _TITLES.get(status, HTTPStatus(status).phrase), content)
    return ProxyReply(status, error_headers(status), encode_error(error))


def page(status: int, title: str, content: str, *headers: Header) -> ProxyReply:
    """An HTML page; `content` is HTML, `title` is text."""
    text = _PAGE.format(title=escape(title), content=content)
    return ProxyReply(status, (*PAGE_HEADERS, *headers), text.encode())
