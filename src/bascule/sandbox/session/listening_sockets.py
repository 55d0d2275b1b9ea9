"""Lists the listening TCP sockets of this network namespace.

The kernel is asked by netlink for the listening sockets alone. /proc/net/tcp has them too, but to
write it the kernel walks through all connections that the machine could have: milliseconds.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_DUMP: Final = 0x301
_ERROR, _DONE = 2, 3
_LISTEN: Final = 1 << 10
_HEAD: Final = struct.Struct("=IHHII")
_QUESTION: Final = struct.Struct("=BBBBI48x")
_SOCKET: Final = struct.Struct("!BBBBHH16s")
_INODE_AT: Final = 68
_ROOM: Final = 1 << 16

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class ListeningSocket:
    """A socket that accepts TCP connections."""

    host: str
    """An address to connect to from this machine: of a wildcard, loopback's."""
    port: int
    inode: int
    is_everywhere: bool
    """It listens on every address."""


def listening_sockets() -> frozenset[ListeningSocket]:
    """Blocks for some microseconds. Raises `OSError` where the kernel does not tell."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as link:
        found = [
            each for family in (socket.AF_INET, socket.AF_INET6) for each in _ask(link, family)
        ]
    return frozenset(found)


def _ask(link: socket.socket, family: int) -> Iterator[ListeningSocket]:
    question = _QUESTION.pack(family, socket.IPPROTO_TCP, 0, 0, _LISTEN)
    link.send(_HEAD.pack(_HEAD.size + len(question), _BY_FAMILY, _DUMP, 0, 0) + question)
    while True:
        for kind, body in messages(link.recv(_ROOM)):
            if kind == _DONE:
                return
            if kind == _ERROR:
                number = -struct.unpack_from("=i", body)[0]
                raise OSError(number, os.strerror(number))
            yield read(body)


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and content of each message in a datagram; they begin at multiples of four."""
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
