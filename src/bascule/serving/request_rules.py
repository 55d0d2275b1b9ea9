"""Rules for every request: its `Host`, `Origin`, `Content-Type` and body size.

The rules keep foreign web pages out. A page whose own domain resolves to this machine (DNS
rebinding) sends that domain in `Host`. Any other foreign page sends its `Origin`, or submits a form
with a content type that Bascule's clients do not use.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from bascule.core.errors import AccessDenied, InvalidRequest, MessageTooLarge

from .asgi import Header, Message, Receive
from .refusals import Refused

_HOST: Final = re.compile(r"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?")
HOST_BYTES: Final = re.compile(_HOST.pattern.encode())
"""A valid `Host` header: a name or an IP address, and an optional port.

The lengths are those of DNS names and IPv6 addresses. They bound the caches that have hosts as
keys, which clients fill before they sign in.
"""
_EMPTY_BODY_TYPE: Final = b"application/octet-stream"
_LOCAL_SUFFIX: Final = ".localhost"
_WILDCARDS: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  # compared with, never bound
_MAX_CACHED_HOSTS: Final = 100
"""Maximum number of accepted `Host` values in the cache."""


def split_host(host: str) -> tuple[str, str]:
    """Return name and port of a `Host` header; the port includes its colon or is empty.

    Returns two empty strings for an invalid value.
    """
    found = _HOST.fullmatch(host)
    return (found[1].strip("[]").lower(), found[2] or "") if found else ("", "")


def is_loopback(host: str) -> bool:
    """Whether a `Host` header names the machine that the browser runs on."""
    name, _ = split_host(host)
    if name == "localhost" or name.endswith(_LOCAL_SUFFIX):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class HostRules:
    """The host names that a server answers to, and the origins whose pages may call it."""

    def __init__(
        self,
        server: str,
        *,
        listens_on: str,
        names: Iterable[str] = (),
        origins: Iterable[str] = (),
        has_pages: bool = False,
    ) -> None:
        """`server`: noun for the server in error messages. `names`: allowed hosts besides loopback
        and `listens_on`; `*` allows any. `has_pages`: the server's own pages may call it."""
        self._server = server
        self._names = {name.lower() for name in (*names, listens_on)} - _WILDCARDS
        self._is_on_every_address = listens_on in _WILDCARDS
        self._origins = {origin.lower().rstrip("/") for origin in origins}
        self._has_pages = has_pages
        self._accepted_hosts: set[bytes] = set()
        """`Host` values that were accepted before. Refused values are not kept, because anybody can
        send many different ones."""

    def checked_headers(self, headers: Sequence[Header]) -> dict[bytes, bytes]:
        """Check the headers and return all of them by name. Raises `Refused` for a `Host` or
        `Origin` that is not allowed, and for several `Host` headers: a proxy may have read a
        different one."""
        fields = dict(headers)
        if len(fields) != len(headers) and sum(name == b"host" for name, _ in headers) > 1:
            error = InvalidRequest("A request has one Host header; this one has several")
            raise Refused(400, error)
        self.ensure_allowed(fields)
        return fields

    def ensure_allowed(self, headers: Mapping[bytes, bytes]) -> None:
        """Raise `Refused` for a `Host` or an `Origin` that is not allowed."""
        host = headers.get(b"host", b"")
        if not self._is_own_host(host):
            raise _refusal(
                f"This {self._server} does not accept the host name {host.decode('latin-1')!r}; "
                "add it to `allowed_hosts`"
            )
        origin = headers.get(b"origin")
        if origin is not None and not self._may_call(origin.lower(), host.lower()):
            pages = "Pages of other origins" if self._has_pages else "Web pages"
            raise _refusal(f"{pages} may not call this {self._server}")

    def _may_call(self, origin: bytes, host: bytes) -> bool:
        if self._has_pages and origin in (b"http://" + host, b"https://" + host):
            return True
        return origin.decode("latin-1") in self._origins

    def _is_own_host(self, host: bytes) -> bool:
        if host in self._accepted_hosts:
            return True
        is_own = self._is_allowed_host(host.decode("latin-1"))
        if is_own and len(self._accepted_hosts) < _MAX_CACHED_HOSTS:
            self._accepted_hosts.add(host)
        return is_own

    def _is_allowed_host(self, host: str) -> bool:
        name, _ = split_host(host)
        if not name:
            return False
        if "*" in self._names or name == "localhost" or name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        # DNS rebinding needs a name; an IP address cannot be pointed here by somebody else.
        return address.is_loopback or self._is_on_every_address


def ensure_content_type(headers: Mapping[bytes, bytes], allowed: Collection[bytes]) -> None:
    """Raise `Refused` for a `Content-Type` not in `allowed`. A request without a `Content-Type` is
    accepted.

    Some clients send a type for an empty body too. Forms of web pages cannot send that type.
    """
    content_type = headers.get(b"content-type")
    if content_type == _EMPTY_BODY_TYPE and headers.get(b"content-length") == b"0":
        return
    if content_type is not None and content_type.partition(b";")[0].strip().lower() not in allowed:
        error = InvalidRequest(f"A body of type {content_type.decode('latin-1')!r} is not accepted")
        raise Refused(415, error)


def bounded(headers: Mapping[bytes, bytes], receive: Receive, limit: int) -> Receive:
    """Return a `receive` that raises `Refused` once a body exceeds `limit` bytes.

    Raises `Refused` at once if `Content-Length` exceeds the limit. A body with `Content-Length` is
    not counted, because the HTTP parser enforces the declared length.
    """
    declared = headers.get(b"content-length")
    if declared is None:
        return counted(receive, limit) if b"transfer-encoding" in headers else receive
    if int(declared) > limit:
        raise _too_large(limit)
    return receive


def counted(receive: Receive, limit: int) -> Receive:
    """Return a `receive` that raises `Refused` once a body exceeds `limit` bytes."""
    received_bytes = 0

    async def count() -> Message:
        nonlocal received_bytes
        message = await receive()
        received_bytes += len(message.get("body", b""))
        if received_bytes > limit:
            raise _too_large(limit)
        return message

    return count


def _refusal(message: str) -> Refused:
    return Refused(403, AccessDenied(message))


def _too_large(limit: int) -> Refused:
    return Refused(413, MessageTooLarge(f"The body is larger than {limit} bytes", limit=limit))
