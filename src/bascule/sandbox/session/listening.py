"""Which TCP ports are listened on, as the kernel tells it in /proc/net."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTEN: Final = b"0A"


@dataclass(frozen=True, slots=True)
class Listening:
    """A socket that takes connections."""

    host: str
    """An address to connect to from this machine: of a wildcard, loopback's."""
    port: int
    inode: int
    is_everywhere: bool
    """It listens on every address."""


def listening() -> frozenset[Listening]:
    """Blocks for some microseconds: the kernel writes the tables when they are read."""
    return frozenset(each for table in _TABLES for each in parse(_text(table)))


def parse(table: bytes) -> Iterator[Listening]:
    """The listening sockets of a table; its first line is a heading."""
    for line in table.splitlines()[1:]:
        words = line.split()
        if words[3] == _LISTEN:
            address, _, port = words[1].partition(b":")
            where = _address(address)
            yield Listening(_reachable(where), int(port, 16), int(words[9]), where.is_unspecified)


def _text(table: Path) -> bytes:
    try:
        return table.read_bytes()
    except FileNotFoundError:  # a kernel without IPv6
        return b""


def _address(text: bytes) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Written as numbers of four bytes each, in the machine's own order."""
    raw = bytes.fromhex(text.decode())
    numbers = struct.unpack(f"={len(raw) // 4}I", raw)
    packed = struct.pack(f"!{len(numbers)}I", *numbers)
    address = ipaddress.ip_address(packed)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _reachable(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    if not address.is_unspecified:
        return str(address)
    return "127.0.0.1" if address.version == 4 else "::1"
