"""Parses which endpoint of a session a request's path names.

Pure rules on raw bytes, without decoding.

Pure rules on raw bytes, without decoding.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import unquote_to_bytes

from bascule.core.errors import InvalidRequest
from bascule.hub.origins import SESSION_ID

Kind = Literal["vscode", "apps", "sandbox"]

_BEGINNINGS: Final = (b"/vscode/", b"/apps/", b"/sandbox/")
_ONE: Final = re.compile(rb"/(vscode|sandbox)/(%s)(/|$|(?=\?))" % SESSION_ID.encode())
_APP: Final = re.compile(
    rb"/apps/(%s)-(0|[1-9][0-9]?)(?:/~([A-Za-z0-9_-]{16,64}))?(/|$|(?=\?))" % SESSION_ID.encode()
)
_TARGET: Final = re.compile(rb"/[\x21\x22\x24-\x7e]*")  # no space, no control, no fragment
_SUSPECT: Final = re.compile(rb"\.|%|\\")
_SEPARATORS: Final = re.compile(rb"[/\\]")
_DOTS: Final = frozenset({b".", b".."})


@dataclass(frozen=True, slots=True)
class SessionEndpoint:
    """A server of a session that can be reached: VS Code, the action server, or an app."""

    kind: Kind
    session_id: str
    n: int = 0
    """Number of the app; 0 for VS Code and the action server."""

    @property
    def path(self) -> str:
        """Its path on the hub's origin, without a trailing slash."""
        app = f"-{self.n}" if self.kind == "apps" else ""
        return f"/{self.kind}/{self.session_id}{app}"


@dataclass(frozen=True, slots=True)
class EndpointPath:
    """A request's path, split into the endpoint and the path that the endpoint's server sees."""

    endpoint: SessionEndpoint
    prefix: str
    """The part of the path before the server's own path, including the key."""
    rest: bytes
    """The server's own path and query, starting with a slash; empty if the slash is missing."""
    key: str = ""
    """The key in an app's path, which replaces a cookie."""


ResolveCarried = Callable[[bytes], EndpointPath | str | None]
"""Maps a request target that a mount serves (`Mount.carried`) to an endpoint of a session, or, for
browsers, to another path of the hub. None: the proxy does not handle the target."""


def is_ours(target: bytes) -> bool:
    """Whether the proxy answers this path, valid or not."""
    return target.startswith(_BEGINNINGS)


def read_target(target: bytes) -> EndpointPath | None:
    """Split a request target; None if it names no possible endpoint."""
    if found := _ONE.match(target):
        kind: Kind = "vscode" if found[1] == b"vscode" else "sandbox"
        endpoint, key = SessionEndpoint(kind, found[2].decode()), ""
    elif found := _APP.match(target):
        endpoint = SessionEndpoint("apps", found[1].decode(), int(found[2]))
        key = (found[3] or b"").decode()
    else:
        return None
    end = found.end() - len(found[found.lastindex or 0])
    rest = target[end:]
    prefix = f"{endpoint.path}/~{key}" if key else endpoint.path
    return EndpointPath(endpoint, prefix, rest if rest.startswith(b"/") else b"", key)


def ensure_plain(target: bytes) -> None:
    """Raise `InvalidRequest` for a target that another server could read as another path.

    Dots that walk are refused however they are written. An encoded slash without them goes
    through as it came: package registries have it in the names of packages.
    """
    if not _TARGET.fullmatch(target):
        raise InvalidRequest("A request here names a path, in ASCII and without a fragment")
    path = target.partition(b"?")[0]
    if not _SUSPECT.search(path):
        return
    for _ in range(3):  # as it is, decoded, and decoded twice
        if b"\0" in path:
            raise InvalidRequest("The path has an encoded NUL")
        if not _DOTS.isdisjoint(_SEPARATORS.split(path)):
            raise InvalidRequest("The path has `.` or `..` as a part; write the path without it")
        path = unquote_to_bytes(path)
