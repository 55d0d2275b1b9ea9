"""Serves files as web pages to the browser, which cannot open files itself.

An agent may view a file; a web page may not. So each URL of the viewer contains a random key for
one file. The viewer creates the key when the agent opens the file, and no web page can know it. The
page that shows the file runs no script and loads nothing.
"""

from __future__ import annotations

import asyncio
import base64
import html
import mimetypes
import secrets
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, quote, urlencode, urlsplit, urlunsplit

from bascule.core.errors import BasculeError, FileTooLarge, IsADirectory, NoSuchPath

from .pdf import pdf_body
from .socks_proxy import VIEWER_HOST

ORIGIN: Final = f"http://{VIEWER_HOST}"
MAX_FILE: Final = 32 << 20
_MAX_KEYS: Final = 256
_MAX_HEAD: Final = 64 << 10
_REQUEST_TIMEOUT: Final = 10.0
_TLS: Final = b"\x16"
_IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp")

Resolve = Callable[[str], Path]
"""Resolves a path as the agent wrote it; raises a `BasculeError` if it is not allowed."""


class FileViewer:
    """Answers connections to blocked addresses, and shows files to requests with a valid key."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._files: OrderedDict[str, str] = OrderedDict()

    def admit(self, path: str) -> str:
        """Return a URL with a new key that shows the file."""
        key = secrets.token_urlsafe(24)
        self._files[key] = path
        while len(self._files) > _MAX_KEYS:
            self._files.popitem(last=False)
        return f"{ORIGIN}/view?{urlencode({'path': path, 'key': key})}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        async with asyncio.timeout(_REQUEST_TIMEOUT):
            first = await reader.readexactly(1)
            if first == _TLS:
                return  # a TLS client expects a certificate, and we have none
            head = first + await reader.readuntil(b"\r\n\r\n")
        method, _, rest = head[:_MAX_HEAD].partition(b" ")
        target = urlsplit(rest.partition(b" ")[0].decode("latin-1"))
        key = parse_qs(target.query).get("key", [""])[0]
        path = self._files.get(key) if method == b"GET" and target.path == "/view" else None
        if path is None:
            await _send(writer, 403, _page("Not for pages", _NOT_FOR_PAGES))
            return
        try:
            body = await asyncio.to_thread(lambda: file_page(self._resolve(path)))
        except BasculeError as error:
            message = f"<p>{html.escape(error.message)}</p>"
            await _send(writer, 404, _page(f"File Viewer - {Path(path).name}", message))
        else:
            await _send(writer, 200, body)


def without_key(url: str) -> str:
    """Remove the key from a viewer URL, for observations and messages."""
    if not url.startswith(f"{ORIGIN}/"):
        return url
    parts = urlsplit(url)
    kept = {name: values[0] for name, values in parse_qs(parts.query).items() if name != "key"}
    return urlunsplit(parts._replace(query=urlencode(kept, safe="/", quote_via=quote)))


def file_page(file: Path) -> bytes:
    """Return a self-contained HTML page that shows the file. Raises a `BasculeError` if it cannot
    be shown."""
    try:
        if file.is_dir():
            raise IsADirectory(f"{file} is a directory")
        size = file.stat().st_size
        if size > MAX_FILE:
            raise FileTooLarge(f"{file} has {size} bytes; {MAX_FILE} is the maximum that is shown")
        data = file.read_bytes()
    except OSError as error:
        raise NoSuchPath(f"{file}: {error.strerror}") from error
    return _page(f"File Viewer - {file.name}", _page_of(file, data))


def _page_of(file: Path, data: bytes) -> str:
    kind = mimetypes.guess_type(file.name)[0] or ""
    name = html.escape(file.name)
    if kind in _IMAGES or kind == "image/svg+xml":
        return f'<img alt="{name}" src="{_inline(kind, data)}">'
    if kind == "application/pdf":
        return pdf_body(file)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        what = f"{len(data)} bytes that are not text, a picture or a PDF"
        return f"<p>{name}: {what}. The viewer cannot show them.</p>"
    return f"<pre>{html.escape(text)}</pre>"


def _inline(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


_NOT_FOR_PAGES: Final = "<p>This address is kept from pages. A file is shown by its path.</p>"


def _page(title: str, body: str) -> bytes:
    return (
        f'<!DOCTYPE html><html><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        "<style>body{margin:16px;font-family:sans-serif}img{max-width:100%}"
        f"pre{{white-space:pre-wrap}}</style></head><body>{body}</body></html>"
    ).encode()


HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Headers that keep the page from running scripts and loading anything."""

_STATUS: Final = {200: "OK", 403: "Forbidden", 404: "Not Found"}


async def _send(writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
    lines = [
        f"HTTP/1.1 {status} {_STATUS[status]}",
        "Content-Type: text/html; charset=utf-8",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in HEADERS.items()),
        "Connection: close",
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    await writer.drain()
