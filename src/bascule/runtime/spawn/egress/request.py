"""Parses the head of a request to the egress proxy. Pure rules, no sockets.

Every byte of a head is checked against the grammar of HTTP/1.1 before anything else looks at it.
A host with a NUL byte, for example, is one name to the rules and another to the resolver; a bare
LF ends a header line for some servers and not for others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_WORD: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_NAME: Final = r"[0-9A-Za-z_](?:[0-9A-Za-z_-]{0,61}[0-9A-Za-z_])?"
_HOST: Final = rf"(?:\[(?P<six>[0-9a-fA-F:.]{{2,45}})\]|(?P<name>{_NAME}(?:\.{_NAME})*\.?))"
_PORT: Final = r"(?P<port>[0-9]{1,5})"

_REQUEST_LINE: Final = re.compile(
    rf"(?P<method>{_WORD}) (?P<target>[\x21-\x7e]+) (?P<version>HTTP/1\.[01])"
)
_AUTHORITY: Final = re.compile(rf"{_HOST}:{_PORT}")
_URL: Final = re.compile(rf"http://(?P<authority>{_HOST}(?::{_PORT})?)(?P<path>[/?].*)?", re.I)
_HEADER: Final = re.compile(rf"(?P<name>{_WORD}):(?P<value>[\t\x20-\x7e\x80-\xff]*)")
_MAX_NAME_LENGTH: Final = 253
_MAX_PORT: Final = 65535

_HOP_BY_HOP: Final = frozenset(
    {"connection", "proxy-connection", "proxy-authorization", "keep-alive", "host", "upgrade"}
)
"""Headers that are not passed on. New `Host` and `Connection` headers replace the old ones."""


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """A client's request to a host."""

    host: str
    port: int
    head: bytes
    """The request head to send to the host; empty for a tunnel."""
    body: int | None
    """Length of the body in bytes; None: the body continues until the end of the stream."""


def parse_request(head: bytes) -> ProxyRequest:
    """Parse a head that ends with an empty line. Raises `ValueError` with the reason."""
    first, *lines = head.removesuffix(b"\r\n\r\n").decode("latin-1").split("\r\n")
    request = _REQUEST_LINE.fullmatch(first)
    if request is None:
        raise ValueError("its first line is not METHOD TARGET HTTP/1.1")
    headers = [_header(line) for line in lines]
    if request["method"] == "CONNECT":
        found = _AUTHORITY.fullmatch(request["target"])
        if found is None:
            raise ValueError("it does not name a host and a port")
        return ProxyRequest(_host(found), _port(found), b"", None)
    return _plain_request(request, headers)


def is_host_name(text: str) -> bool:
    """Whether this is a DNS name: only letters, digits, `-`, `_` and dots."""
    return len(text) <= _MAX_NAME_LENGTH and bool(re.fullmatch(rf"{_NAME}(?:\.{_NAME})*\.?", text))


def _plain_request(request: re.Match[str], headers: Sequence[tuple[str, str]]) -> ProxyRequest:
    url = _URL.fullmatch(request["target"])
    if url is None:
        raise ValueError("it does not begin with http:// and a host")
    path = (url["path"] or "/").partition("#")[0]
    end_to_end = [f"{name}:{value}" for name, value in headers if name.lower() not in _HOP_BY_HOP]
    rewritten = [
        f"{request['method']} {path if path.startswith('/') else '/' + path} {request['version']}",
        f"Host: {url['authority']}",
        *end_to_end,
        "Connection: close",
    ]
    rewritten_head = "\r\n".join(rewritten).encode("latin-1") + b"\r\n\r\n"
    return ProxyRequest(_host(url), _port(url), rewritten_head, _body(headers))


def _host(found: re.Match[str]) -> str:
    host = found["six"] or found["name"]
    if len(host) > _MAX_NAME_LENGTH:
        raise ValueError(f"its host has more than {_MAX_NAME_LENGTH} characters")
    return host


def _port(found: re.Match[str]) -> int:
    port = int(found["port"] or 80)
    if not 0 < port <= _MAX_PORT:
        raise ValueError(f"{port} is not a port")
    return port


def _header(line: str) -> tuple[str, str]:
    found = _HEADER.fullmatch(line)
    if found is None:
        raise ValueError("a header is malformed")
    return found["name"], found["value"]


def _body(headers: Sequence[tuple[str, str]]) -> int | None:
    lengths = [value.strip() for name, value in headers if name.lower() == "content-length"]
    is_chunked = any(name.lower() == "transfer-encoding" for name, _ in headers)
    if len(set(lengths)) > 1 or (lengths and is_chunked):
        raise ValueError("it has more than one length")
    if lengths and not re.fullmatch(r"[0-9]{1,18}", lengths[0]):
        raise ValueError("its Content-Length is not a number")
    if is_chunked:
        return None
    return int(lengths[0]) if lengths else 0
