"""Parses the path of a request into an endpoint of a session and the rest of the path.

Pure rules on raw bytes, without percent-decoding.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal
from urllib.parse import unquote_to_bytes

from bascule.core.errors import InvalidRequest
from bascule.hub.origins import SESSION_ID

Kind = Literal["vscode", "apps", "sandbox"]

_PREFIXES: Final = (b"/vscode/", b"/apps/", b"/sandbox/")
_PREFIX: Final = re.compile(
    rb"/(?:(vscode|sandbox)/(%(id)s)|apps/(%(id)s)-(0|[1-9][0-9]?)(?:/~([A-Za-z0-9_-]{16,64}))?)"
    rb"(?=[/?]|\Z)" % {b"id": SESSION_ID.encode()}
)
_TARGET: Final = re.compile(rb"/[\x21\x22\x24-\x7e]*")  # no spaces, control characters or `#`
_SUSPECT: Final = re.compile(rb"\.|%|\\")
_SEPARATORS: Final = re.compile(rb"[/\\]")
_DOTS: Final = frozenset({b".", b".."})


@dataclass(frozen=True, slots=True)
class SessionEndpoint:
    """A server of a session that the proxy serves: VS Code, the action server, or an app."""

    kind: Kind
    session_id: str
    n: int = 0
    """Number of the app; 0 for VS Code and the action server."""

    @property
    def path(self) -> str:
        """The endpoint's path on the hub's origin, without a trailing slash."""
        app = f"-{self.n}" if self.kind == "apps" else ""
        return f"/{self.kind}/{self.session_id}{app}"


@dataclass(slots=True)
class EndpointPath:
    """A request's path, split into the endpoint and the path that the endpoint's server sees.

    Not frozen because it is created for each request: a frozen class takes three times as long.
    """

    endpoint: SessionEndpoint
    prefix: str
    """The part of the path before the server's own path, including the key."""
    rest: bytes
    """The server's own path and query, starting with a slash; empty if the slash is missing."""
    key: str = ""
    """The key in an app's path, which replaces a cookie."""


ResolveMountedPath = Callable[[bytes], EndpointPath | str | None]
"""Maps a request target below a mount to an endpoint of a session, or, for browsers, to a path
of the hub (`Mount.proxied_path`). None: the proxy does not handle the target."""


def is_session_path(target: bytes) -> bool:
    """Whether the path starts like the path of an endpoint, valid or not."""
    return target.startswith(_PREFIXES)


def read_target(target: bytes) -> EndpointPath | None:
    """Split a request target; None if it does not have the form of an endpoint's path."""
    match = _PREFIX.match(target)
    if match is None:
        return None
    endpoint, prefix, key = _parse_prefix(match[0])
    rest = target[match.end() :]
    return EndpointPath(endpoint, prefix, rest if rest.startswith(b"/") else b"", key)


@lru_cache(maxsize=1024)
def _parse_prefix(prefix: bytes) -> tuple[SessionEndpoint, str, str]:
    """The endpoint, prefix and key in a match of `_PREFIX`. Cached: most requests are for few
    endpoints."""
    match = _PREFIX.fullmatch(prefix)
    assert match is not None
    if match[1] is not None:
        kind: Kind = "vscode" if match[1] == b"vscode" else "sandbox"
        endpoint = SessionEndpoint(kind, match[2].decode())
    else:
        endpoint = SessionEndpoint("apps", match[3].decode(), int(match[4]))
    return endpoint, prefix.decode(), (match[5] or b"").decode()


def ensure_plain(target: bytes) -> None:
    """Raise `InvalidRequest` for a target that another server could read as another path.

    Refuses the segments `.` and `..` in every encoding. Allows other encoded slashes: package
    registries use them in the names of packages.
    """
    if not _TARGET.fullmatch(target):
        raise InvalidRequest("The request target must be a path, in ASCII and without a fragment")
    path = target.partition(b"?")[0]
    if not _SUSPECT.search(path):
        return
    for _ in range(3):  # checks the path as sent, decoded once, and decoded twice
        if b"\0" in path:
            raise InvalidRequest("The path has an encoded NUL")
        if not _DOTS.isdisjoint(_SEPARATORS.split(path)):
            raise InvalidRequest("The path has `.` or `..` as a part; write the path without it")
        path = unquote_to_bytes(path)
