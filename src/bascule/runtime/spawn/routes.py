"""Sets routes in a network namespace that reject traffic to some networks.

No process in a session has the right to change these routes. This file imports only the standard
library: containers run its text with their own Python. All functions block.
"""

from __future__ import annotations

import errno
import fcntl
import ipaddress
import json
import socket
import struct
import sys
from collections.abc import Iterable

DONE = "done"
"""The output of this file, run as a program, when it has succeeded."""
_SIOCADDRT = 0x890B
_SIOCSIFFLAGS = 0x8914
_IFF_UP_AND_RUNNING = 0x41
_UP, _GATEWAY, _REJECT = 0x1, 0x2, 0x200
_NO_IPV6 = (errno.EAFNOSUPPORT, errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.EACCES)
"""Errors on a machine without IPv6."""


def bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        # struct ifreq
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("@16sH22x", b"lo", _IFF_UP_AND_RUNNING))


def reject(networks: Iterable[str]) -> None:
    """Reject all traffic from this namespace to these networks."""
    for each in map(ipaddress.ip_network, networks):
        if isinstance(each, ipaddress.IPv4Network):
            _add(each, _UP | _REJECT)
        else:
            _add_ipv6(each)


def route_via_gateway(networks: Iterable[str], gateway: str) -> None:
    """Route these networks through a gateway, although a wider network is rejected. IPv4 only."""
    for each in map(ipaddress.IPv4Network, networks):
        _add(each, _UP | _GATEWAY, gateway)


def _add(network: ipaddress.IPv4Network, flags: int, gateway: str = "0.0.0.0") -> None:  # noqa: S104
    numbers = (str(network.network_address), gateway, str(network.netmask))
    addresses = [
        struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(each)) for each in numbers
    ]
    # struct rtentry
    route = struct.pack("@L16s16s16sHhLPhPLLH", 0, *addresses, flags, 0, 0, 0, 0, 0, 0, 0, 0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        _add_route(sock, route)


def _add_ipv6(network: ipaddress.IPv6Network) -> None:
    # struct in6_rtmsg
    start, none = network.network_address.packed, bytes(16)
    length, flags = network.prefixlen, _UP | _REJECT
    route = struct.pack("@16s16s16sIHHILIi", start, none, none, 0, length, 0, 1, 0, flags, 0)
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
            _add_route(sock, route)
    except OSError as error:
        if error.errno not in _NO_IPV6:
            raise


def _add_route(sock: socket.socket, route: bytes) -> None:
    try:
        fcntl.ioctl(sock, _SIOCADDRT, route)
    except FileExistsError:
        return


def _default_gateway() -> str:
    """The default gateway; in a container this is the host."""
    with open("/proc/net/route") as file:  # noqa: PTH123
        rows = [line.split() for line in file.readlines()[1:]]
    # Columns of the file: interface, destination, gateway, ... and, as number 7, the mask.
    routes = [(int(row[1], 16), int(row[2], 16), int(row[7], 16)) for row in rows]
    default = next(gateway for target, gateway, mask in routes if target == mask == 0)
    return socket.inet_ntoa(struct.pack("=I", default))


if __name__ == "__main__":
    networks = json.loads(sys.argv[1])
    gateway = _default_gateway()
    route_via_gateway(networks["lead"], gateway)
    allowed = [ipaddress.ip_network(each) for each in networks["allowed"]]
    is_allowed = any(ipaddress.ip_address(gateway) in each for each in allowed)
    reject([*networks["reject"], *([] if is_allowed else [f"{gateway}/32"])])
    sys.stdout.write(DONE)
