"""Turns an agent's address into a URL to open, and explains why a page could not be opened."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qs, urlsplit

from bascule.core.errors import InvalidAction

from .file_viewer import FileViewer, without_key
from .socks_proxy import VIEWER_HOST, BrowserProxy

_SCHEMES: Final = frozenset({"http", "https", "about", "data"})
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104
_ODD: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_OTHER_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+-]*:(?!\d)")
"""The start of URLs such as `javascript:…` and `mailto:…`; `host:80` does not match."""
_CODE: Final = re.compile(r"net::(ERR_[A-Z_]+)")
_PORTS: Final = {"http": 80, "https": 443}


class AddressResolver:
    """Resolves the argument of `goto` to a URL that the browser opens."""

    def __init__(
        self,
        proxy: BrowserProxy,
        viewer: FileViewer,
        *,
        own: Sequence[tuple[str, int]],
        allows_files: bool,
    ) -> None:
        """`allows_files`: allow `file:` URLs, because the agent is not confined to roots."""
        self._proxy = proxy
        self._allows_files = allows_files
        self._viewer = viewer
        self._own = {(host.lower(), port) for host, port in own}
        self._own |= {(name, port) for _, port in own for name in _LOOPBACK}

    def target(self, url: str) -> str:
        """Return the URL for an address: a path opens the file viewer, no scheme means `http`.

        Raises `InvalidAction`. `file:` URLs are safe here: Chromium lets neither web pages open
        files nor one file read another.
        """
        url = url.strip()
        if not url:
            raise InvalidAction(
                "The address is empty; name a page (http://…) or a file by its path"
            )
        if (odd := _ODD.search(url)) is not None:
            where = f"{odd[0]!r} at position {odd.start()}"
            raise InvalidAction(
                f"{url!r} is not a valid URL: it contains an invalid character, {where}"
            )
        if url.startswith(("/", "./", "~/")):
            return self._viewer.admit(url)
        head = url.partition(":")[0].lower()
        if "://" not in url and head not in _SCHEMES and not _OTHER_SCHEME.match(url):
            url, head = f"http://{url}", "http"
        if head == "file" and self._allows_files:
            return url
        if head not in _SCHEMES:
            raise InvalidAction(
                f"{url!r} cannot be opened: {head}: is not a scheme this browser opens. Addresses "
                "start with http:// or https://, and a file is named by its path"
            )
        try:
            parts = urlsplit(url)
            address = (parts.hostname or "").lower(), parts.port or _PORTS.get(parts.scheme, 0)
        except ValueError as error:
            raise InvalidAction(f"{url!r} is not a valid URL: {error}") from None
        if parts.path == "/view" and (address in self._own or address[0] == VIEWER_HOST):
            return self._viewer.admit(parse_qs(parts.query).get("path", [""])[0])
        return url

    def refusal(self, asked: str, url: str) -> str:
        """Return the error message for a blocked page at `url`; `asked` is the original address."""
        what = "it belongs to the sandbox or the hub itself"
        if asked and without_key(url) not in (asked, f"{asked}/"):
            return f"{asked} leads to {url}, which is kept from the browser: {what}"
        return f"{url} is kept from the browser: {what}"

    def is_blocked(self, url: str) -> bool:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port or _PORTS.get(parts.scheme, 0)
        return host == VIEWER_HOST or self._proxy.was_blocked(host, port)

    def explain(self, url: str, message: str) -> str:
        """Return the reason why a page did not load; `message` is the browser's error."""
        if url.partition(":")[0].lower() in ("about", "data"):  # no host
            return f"{url} could not be opened: {message.splitlines()[0]}"
        if self.is_blocked(url if "://" in url else f"http://{url}"):
            return self.refusal("", url)
        code = found[1] if (found := _CODE.search(message)) else ""
        if not code:
            if "Timeout" in message:
                return f"{url} did not answer in time"
            return f"{url} could not be opened: {message.splitlines()[0]}"
        target = urlsplit(url if "://" in url else f"http://{url}")
        port = target.port or _PORTS.get(target.scheme, 0)
        why = self._proxy.last_error((target.hostname or "").lower(), port)
        return f"{url} could not be opened: {why or code}" + (f" ({code})" if why else "")
