"""Networks that a session with egress `open` cannot reach, and this machine's own addresses."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import psutil

from bascule.core.errors import InvalidSetting

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

NOT_PUBLIC: Final = (
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12"),
    *("192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4"),
    *("fc00::/7", "ff00::/8", "64:ff9b::/96", "2002::/16"),
)
"""Private, shared, link-local (where clouds serve metadata) and reserved networks, and IPv6
addresses that contain an IPv4 address."""


@dataclass(frozen=True, slots=True)
class NetworkReach:
    """The networks rejected in a session's namespace, and the allowed networks inside of these."""

    rejected: Sequence[str]
    allowed_networks: Sequence[str]


def network_reach(allowed: Iterable[str], own_addresses: Iterable[str]) -> NetworkReach:
    """`allowed`: networks of the setting `open_networks`. `own_addresses`: addresses of this
    machine."""
    wanted = [network_of(each) for each in allowed]
    own = [ipaddress.ip_network(each) for each in sorted(own_addresses)]
    unreachable: list[Network] = [
        *map(ipaddress.ip_network, NOT_PUBLIC),
        *(n for n in own if _is_reachable(n)),
    ]
    rejected = [each for each in unreachable if not any(_covers(other, each) for other in wanted)]
    allowed_networks = [each for each in wanted if each.version == 4 and each.prefixlen > 0]
    return NetworkReach([str(each) for each in rejected], [str(each) for each in allowed_networks])


def own_addresses() -> frozenset[str]:
    """This machine's addresses; the hub listens at one of them. Blocks the calling thread."""
    interfaces = psutil.net_if_addrs().values()
    addresses = (each for of_interface in interfaces for each in of_interface)
    families = (socket.AF_INET, socket.AF_INET6)
    return frozenset(
        each.address.partition("%")[0] for each in addresses if each.family in families
    )


def network_of(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise InvalidSetting(
            f"open_networks: {text!r} is not a network such as 10.1.0.0/16 or 10.1.2.3/32 ({error})"
        ) from error


def _covers(wide: Network, narrow: Network) -> bool:
    if isinstance(wide, ipaddress.IPv4Network) and isinstance(narrow, ipaddress.IPv4Network):
        return narrow.subnet_of(wide)
    if isinstance(wide, ipaddress.IPv6Network) and isinstance(narrow, ipaddress.IPv6Network):
        return narrow.subnet_of(wide)
    return False


def _is_reachable(network: Network) -> bool:
    """Whether a session could reach the address: not loopback and not link-local IPv6."""
    address = network.network_address
    return not address.is_loopback and not (address.version == 6 and address.is_link_local)
