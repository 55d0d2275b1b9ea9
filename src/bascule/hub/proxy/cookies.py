"""Rules for cookies in the proxy: targets never see the hub's cookies, and a target's own cookies
stay below its path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

HUB_COOKIE: Final = b"__Host-Http-bascule"
"""The sign-in cookie. Because of its prefix, browsers accept it only from this host, for all paths,
and not from scripts."""
OIDC_COOKIE: Final = b"__Host-Http-bascule-oidc"
"""The cookie of a browser that signs in at an OpenID provider."""
_APP_COOKIE: Final = b"__Host-Http-bascule-app"
_APP_COOKIE_OF_PATH: Final = b"__Secure-bascule-app"
_HUB_PREFIXES: Final = (b"__host-http-bascule", b"__host-bascule", b"__secure-bascule", b"bascule")


def session_cookie(session_id: str) -> bytes:
    """Name of the cookie that gives access to one session, on the origin of that session."""
    return HUB_COOKIE + b"-" + session_id.encode()


def app_cookie(path: str) -> bytes:
    """Name of the cookie of one app on the apps' origin. `path` is empty if it has its own host."""
    return _APP_COOKIE_OF_PATH + path.replace("/", "-").encode() if path else _APP_COOKIE


def values_of(header: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The cookies of a `Cookie` header, in its order."""
    for pair in header.split(b";"):
        name, _, value = pair.strip().partition(b"=")
        if name:
            yield name, value


def without_hub_cookies(header: bytes) -> bytes:
    """The `Cookie` header without the hub's cookies; empty when none is left."""
    if b"bascule" not in header.lower() and b"bsc_" not in header:
        return header
    kept = [pair.strip() for pair in header.split(b";") if not _is_hidden(pair)]
    return b"; ".join(pair for pair in kept if pair)


def confine_cookie(header: bytes, prefix: str) -> bytes | None:
    """A target's `Set-Cookie` with its path inside `prefix` and no domain; None to drop it."""
    first, *attributes = header.split(b";")
    name = _name(first)
    # Without a name, `=x` is a cookie whose value some servers read as `name=value`.
    if not name or b"=" not in first or _is_hub_cookie(name):
        return None
    if prefix and name.lower().startswith(b"__host-"):  # browsers require `Path=/` for it
        return None
    base = prefix.encode()
    path, kept = base + b"/", [first.strip()]
    for attribute in attributes:
        word, _, value = attribute.strip().partition(b"=")
        match word.strip().lower():
            case b"path":
                path = _path_below(value.strip(), base)
            case b"domain" | b"":
                pass
            case _:
                kept.append(attribute.strip())
    return b"; ".join([*kept, b"Path=" + path])


def _path_below(path: bytes, base: bytes) -> bytes:
    if not path.startswith(b"/") or path == b"/":
        return base + b"/"
    return path if path == base or path.startswith(base + b"/") else base + path


def _name(pair: bytes) -> bytes:
    return pair.partition(b"=")[0].strip()


def _is_hidden(pair: bytes) -> bool:
    """Whether this is a cookie of the hub, or another cookie that contains a token of the hub."""
    return _is_hub_cookie(_name(pair)) or b"bsc_" in pair


def _is_hub_cookie(name: bytes) -> bool:
    return name.lower().startswith(_HUB_PREFIXES)
