"""Finds the user whose process opened a loopback connection."""

from __future__ import annotations

import ipaddress
import socket
import struct
from pathlib import Path
from typing import Final

_TABLES: Final = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}
_LOCAL, _REMOTE, _UID = 1, 2, 7
"""Columns of `/proc/net/tcp`."""


def peer_uid(client: tuple[str, int] | None, server: tuple[str, int | None] | None) -> int | None:
    """The user id of the process at the other end; None if it is not on this machine.

    The kernel lists both ends of a loopback connection; this function looks up the client's
    socket. It blocks.
    """
    if client is None or server is None or server[1] is None:
        return None
    try:
        client_address, server_address = (
            ipaddress.ip_address(client[0]),
            ipaddress.ip_address(server[0]),
        )
    except ValueError:
        return None
    if not client_address.is_loopback or client_address.version != server_address.version:
        return None
    ends = _as_proc_text(client_address, client[1]), _as_proc_text(server_address, server[1])
    try:
        lines = _TABLES[client_address.version].read_text().splitlines()[1:]
    except OSError:
        return None
    for line in lines:
        fields = line.split()
        if (fields[_LOCAL], fields[_REMOTE]) == ends:
            return int(fields[_UID])
    return None


def _as_proc_text(address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> str:
    """The address as the kernel prints it in `/proc/net/tcp`: 32-bit words in host byte order."""
    words = struct.iter_unpack("!I", address.packed)
    text = "".join(f"{socket.htonl(word):08X}" for (word,) in words)
    return f"{text}:{port:04X}"
