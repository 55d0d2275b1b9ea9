"""The origins of the hub's page and of each session.

Browsers isolate two pages from each other only if their origins (scheme, host and port) differ.
VS Code and apps of a session run the session's code. So by default they do not share an origin with
the hub's page or with another session; `sessions_origin` can change that.

On this machine the names are below `localhost`, which browsers resolve to loopback by themselves:
`hub-….localhost` for the page, `{session id}.localhost` for a session. Each such name has its own
cookies, while a cookie of `127.0.0.1` is sent to the servers on all its ports. The port is always
taken from the request, so that a forwarded port may have another number.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b32encode
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from bascule.core.errors import InvalidSetting
from bascule.serving.request_rules import is_loopback, split_host

from .settings import HubSettings

SESSION_ID: Final = r"[a-z0-9]{8,40}"
"""Pattern of session ids. They are random and valid in host names. They contain no `-`, because in
the path of an app (`/apps/{id}-{number}/`) a `-` separates the session id from the app's number."""

HUB: Final = "hub"
"""The value of `sessions_origin` that puts sessions on the hub's own origin."""

_LOCAL: Final = ".localhost"
_LABEL: Final = re.compile(SESSION_ID)
_ORIGIN_PATTERN: Final = re.compile(r"https?://(\*\.)?[a-z0-9.-]+(:[0-9]+)?")


@dataclass(frozen=True, slots=True)
class SessionHost:
    """A host name that belongs to sessions."""

    origin: str
    session_id: str
    """Empty: all sessions share this origin."""


class Origins:
    """The origins of one hub. Raises `InvalidSetting` for a `sessions_origin` it cannot use."""

    def __init__(self, settings: HubSettings) -> None:
        public = urlsplit(settings.public_url.lower())
        is_public = public.scheme == "https" or not is_loopback(public.netloc)
        self._public = f"{public.scheme}://{public.netloc}" if public.netloc and is_public else ""
        self._public_host = public.netloc if self._public else ""
        self.is_shared_with_hub = settings.sessions_origin == HUB
        """Whether sessions have the hub's own origin, on explicit request."""
        configured = "" if self.is_shared_with_hub else settings.sessions_origin.lower().rstrip("/")
        _ensure_usable(configured, self._public)
        self.sessions_origin = configured
        """The setting `sessions_origin`; empty if it is not set or is `hub`."""
        self._sessions_host_suffix = configured.partition("://")[2].removeprefix("*")
        """The host in `sessions_origin`: `.sessions.example` if the setting has a wildcard, else a
        whole host such as `hub.example:8443`; empty if sessions have no configured origin."""
        self.has_wildcard = "://*." in configured
        """Whether `sessions_origin` gives each session its own host name."""
        purpose = f"bascule host name {settings.state_dir or ''}".encode()
        digest = hmac.digest(settings.admin_token.encode(), purpose, hashlib.sha256)
        self.local_name = f"hub-{b32encode(digest[:10]).decode().lower()}{_LOCAL}"
        """The page's host name on this machine. It is unique to this hub and cannot be guessed."""
        # Cached because they are called for every request, with few different hosts.
        self.session_host = lru_cache(maxsize=1024)(self._session_host)
        """The `SessionHost` of a host that belongs to sessions; None for all other hosts."""
        self.page_origin = lru_cache(maxsize=1024)(self._page_origin)
        """The origin of the hub's page for a browser that reached the hub at the given host."""

    def _page_origin(self, host: str) -> str:
        if self._is_local(host):
            return f"http://{self.local_name}{split_host(host)[1]}"
        return self._public or f"http://{host}"

    def is_page_host(self, host: str) -> bool:
        """Whether the hub's page is served at this host. Only for hosts that do not belong to
        sessions (`session_host`)."""
        return not self._is_local(host) or split_host(host)[0] == self.local_name

    def session_origin(self, host: str, session_id: str) -> str:
        """The origin of a session for a browser that reached the hub at `host`; empty if sessions
        have none there."""
        if self.is_shared_with_hub:
            return self.page_origin(host)
        if self._is_local(host):
            return f"http://{session_id}{_LOCAL}{split_host(host)[1]}"
        return self.sessions_origin.replace("*", session_id)

    @property
    def lacks_sessions_origin(self) -> bool:
        """Whether the hub is reachable from other machines but sessions have no origin for them."""
        return bool(self._public) and not self.sessions_origin and not self.is_shared_with_hub

    @property
    def remaining_risk(self) -> str:
        """The risk that remains with the configured origins for remote users; empty if none."""
        if not self._public:
            return ""
        if self.is_shared_with_hub:
            return (
                "sessions share the hub's origin: a page of a session can act as the person who "
                "views it, with all permissions of that person on this hub"
            )
        if self.sessions_origin and not self.has_wildcard:
            return (
                "all sessions share one origin: pages of a session can read and control the other "
                "sessions of the person who views them"
            )
        if self.sessions_origin and _site(self._public) == _site(self.sessions_origin):
            return (
                "sessions and the hub share a site: pages of sessions can set cookies for the "
                "hub's name, and sign people out"
            )
        return ""

    def _is_local(self, host: str) -> bool:
        """Whether `host` is a loopback name or address that neither `public_url` nor
        `sessions_origin` uses."""
        if host == self._public_host or not is_loopback(host):
            return False
        suffix = self._sessions_host_suffix
        return not suffix or not host.endswith(suffix)

    def _session_host(self, host: str) -> SessionHost | None:
        if self.is_shared_with_hub:
            return None
        if (
            self._sessions_host_suffix
            and not self.has_wildcard
            and host == self._sessions_host_suffix
        ):
            return SessionHost(self.sessions_origin, "")
        if self.has_wildcard and host.endswith(self._sessions_host_suffix):
            label = host.removesuffix(self._sessions_host_suffix)
            if _LABEL.fullmatch(label):
                return SessionHost(self.sessions_origin.replace("*", label), label)
        name, _ = split_host(host)
        label = name.removesuffix(_LOCAL)
        if label != name and _LABEL.fullmatch(label):
            return SessionHost(f"http://{host}", label)
        return None


def _ensure_usable(origin: str, public: str) -> None:
    if not origin:
        return
    if not _ORIGIN_PATTERN.fullmatch(origin):
        raise InvalidSetting(
            f"sessions_origin is {origin!r}; set it to an origin like https://*.sessions.example "
            f"or https://hub.example:8443, or to {HUB!r} for the hub's own origin"
        )
    own = urlsplit(public).netloc
    suffix = origin.partition("://*")[2]
    if own and (origin == public or (suffix and own.endswith(suffix))):
        raise InvalidSetting(
            f"sessions_origin is {origin!r}, which includes the hub's own address {public}; use "
            "another domain for sessions, such as https://*.sessions.example"
        )


def _site(origin: str) -> str:
    """An approximation of the registrable domain; only the Public Suffix List knows it exactly."""
    name = (urlsplit(origin.replace("*.", "")).hostname or "").split(".")
    return ".".join(name[-2:])
