"""Lists the listening TCP sockets of this network namespace.

Uses netlink, which returns only the listening sockets. Reading /proc/net/tcp takes milliseconds,
because the kernel walks its whole table of connections.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_SOCK_DIAG: Final = 4  # NETLINK_SOCK_DIAG
_BY_FAMILY: Final = 20  # SOCK_DIAG_BY_FAMILY
_DUMP: Final = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_ERROR, _DONE = 2, 3
_LISTEN: Final = 1 << 10  # the bit of TCP_LISTEN
_HEAD: Final = struct.Struct("=IHHII")
_REQUEST: Final = struct.Struct("=BBBBI48x")
_SOCKET: Final = struct.Struct("!BBBBHH16s")
_INODE_AT: Final = 68  # offset of `idiag_inode` in `struct inet_diag_msg`
_RECEIVE_BYTES: Final = 1 << 16

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class ListeningSocket:
    """A socket that accepts TCP connections."""

    host: str
    """Address to connect to from this machine; loopback for a wildcard."""
    port: int
    inode: int
    is_everywhere: bool
    """Whether it listens on every address (wildcard)."""


def listening_sockets() -> frozenset[ListeningSocket]:
    """Return all listening sockets. Blocks for microseconds. Raises `OSError` if not supported."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as link:
        found = [
            each for family in (socket.AF_INET, socket.AF_INET6) for each in _ask(link, family)
        ]
    return frozenset(found)


def _ask(link: socket.socket, family: int) -> Iterator[ListeningSocket]:
    request = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _LISTEN)
    link.send(_HEAD.pack(_HEAD.size + len(request), _BY_FAMILY, _DUMP, 0, 0) + request)
    while True:
        for kind, body in messages(link.recv(_RECEIVE_BYTES)):
            if kind == _DONE:
                return
            if kind == _ERROR:
                number = -struct.unpack_from("=i", body)[0]
                raise OSError(number, os.strerror(number))
            yield read(body)


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and content of each message in a datagram; messages are aligned to four bytes."""
    at = 0
    while at + _HEAD.size <= len(data):
        size, kind, *_ = _HEAD.unpack_from(data, at)
        yield kind, data[at + _HEAD.size : at + size]
        at += (size + 3) & ~3


def read(message: bytes) -> ListeningSocket:
    family, _, _, _, port, _, raw = _SOCKET.unpack_from(message)
    inode = struct.unpack_from("=I", message, _INODE_AT)[0]
    address: Address
    if family == socket.AF_INET:
        address = ipaddress.IPv4Address(raw[:4])
    else:
        address = ipaddress.IPv6Address(raw)
        address = address.ipv4_mapped or address
    return ListeningSocket(_reachable(address), port, inode, address.is_unspecified)


def _reachable(address: Address) -> str:
    if not address.is_unspecified:
        return str(address)
    return "127.0.0.1" if address.version == 4 else "::1"
