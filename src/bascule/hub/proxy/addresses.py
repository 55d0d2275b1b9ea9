"""Builds every URL of the hub that people see, from `public_url` and `apps_origin`."""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from bascule.core.errors import InvalidSetting
from bascule.hub.origins import SESSION_ID

from .endpoints import EndpointPath, SessionEndpoint

_LABEL: Final = re.compile(rf"({SESSION_ID})-(0|[1-9][0-9]?)")
_GRANT: Final = re.compile(rb"/~([A-Za-z0-9_-]{16,64})(/.*|$)")
_ORIGIN: Final = re.compile(
    r"https?://(\*\.)?[a-z0-9.-]+(:[0-9]+)?|https?://\[[0-9a-f:]+\](:[0-9]+)?"
)


class HubAddresses:
    """Builds the hub's URLs. `url` returns the hub's own URL; `secret` signs the keys of apps.

    With `apps_origin`, apps have another origin than the hub: `https://apps.example` serves all
    apps below `/apps/`, `https://*.apps.example` gives each app its own host.
    """

    def __init__(
        self,
        url: Callable[[], str],
        secret: bytes,
        apps_origin: str = "",
        *,
        is_secure: bool = False,
    ) -> None:
        origin = apps_origin.lower().rstrip("/")
        if origin and not _ORIGIN.fullmatch(origin):
            raise InvalidSetting(
                f"apps_origin is {apps_origin!r}; set it to an origin like "
                "https://apps.example:8443 or https://*.apps.example"
            )
        self._url = url
        self.is_secure = is_secure
        """Whether people reach the hub over TLS."""
        self._secret = secret
        self.apps_origin = origin
        self._has_wildcard = "://*." in origin
        self.has_apps_origin = bool(origin)
        self._host = origin.partition("://")[2].removeprefix("*")
        """Host and port of `apps_origin`. A wildcard is removed up to its dot: `.apps.example`."""

    def hub(self, path: str = "") -> str:
        return self._url() + path

    def vscode(self, session_id: str) -> str:
        return self._url() + SessionEndpoint("vscode", session_id).path + "/"

    def watch(self, session_id: str) -> str:
        """URL of the hub's page with a session's VS Code beside its timeline."""
        return self._url() + f"/watch/{session_id}"

    def app(self, session_id: str, n: int) -> str:
        """URL at which people open an app; it redirects through the sign-in if necessary."""
        return self._url() + SessionEndpoint("apps", session_id, n).path + "/"

    def base_path(self, endpoint: SessionEndpoint, *, is_sandboxed: bool = True) -> str:
        """The path prefix for an app that makes absolute links; empty if it needs none."""
        if endpoint.kind != "apps":
            return endpoint.path
        if self._has_wildcard:
            return ""
        return (
            endpoint.path if self.has_apps_origin or not is_sandboxed else self.keyed_path(endpoint)
        )

    def keyed_path(self, endpoint: SessionEndpoint) -> str:
        """The path of an app with its key."""
        return f"{endpoint.path}/~{self.key(endpoint)}"

    def grant(self, endpoint: SessionEndpoint) -> str:
        """A URL on the apps' origin that exchanges its key for a cookie."""
        if self._has_wildcard:
            label = f"{endpoint.session_id}-{endpoint.n}"
            return f"{self.apps_origin.replace('*', label)}/~{self.key(endpoint)}"
        return self.apps_origin + self.keyed_path(endpoint)

    def key(self, endpoint: SessionEndpoint) -> str:
        """The key of one app. It is computed from the admin token and changes with it, and is never
        stored."""
        digest = hmac.digest(self._secret, f"key {endpoint.path}".encode(), hashlib.sha256)
        return urlsafe_b64encode(digest[:24]).decode()

    def is_key(self, endpoint: SessionEndpoint, key: str) -> bool:
        return hmac.compare_digest(self.key(endpoint).encode(), key.encode())

    def is_apps_host(self, host: str) -> bool:
        """Whether a `Host` header names the apps' origin."""
        if not self._host:
            return False
        return host.endswith(self._host) if self._has_wildcard else host == self._host

    def app_of_host(self, host: str, target: bytes) -> EndpointPath | None:
        """The app that `host` belongs to; None if apps do not have their own hosts."""
        label_match = (
            _LABEL.fullmatch(host.removesuffix(self._host)) if self._has_wildcard else None
        )
        if label_match is None:
            return None
        endpoint = SessionEndpoint("apps", label_match[1], int(label_match[2]))
        if match := _GRANT.match(target):
            key = match[1].decode()
            return EndpointPath(endpoint, f"/~{key}", match[2] or b"/", key)
        return EndpointPath(endpoint, "", target)


def host_of(url: str) -> str:
    """The `Host` header a browser sends for this URL."""
    return urlsplit(url).netloc.lower()
