"""Decides which names and addresses a session may reach through the egress proxy. Pure rules."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from .request import is_host_name

_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
PORTS: Final = frozenset({80, 443})


@dataclass(frozen=True, slots=True)
class EgressRules:
    domains: Sequence[str]
    """Domain names; `*.example.org` matches all subdomains."""
    ports: Collection[int] = PORTS
    own_addresses: Collection[str] = field(default=frozenset())
    """This machine's addresses, public or not; the hub listens at one of them."""

    def allows_name(self, host: str, port: int) -> bool:
        is_name = is_host_name(host) or _is_address(host)
        return (
            is_name
            and port in self.ports
            and any(_matches_domain(host, each) for each in self.domains)
        )

    def allows_address(self, address: str) -> bool:
        """Whether this is a public address, and neither of this machine nor of its network."""
        inner = _innermost(ipaddress.ip_address(address.partition("%")[0]))
        is_public = inner.is_global and not inner.is_multicast
        return is_public and str(inner) not in self.own_addresses


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _matches_domain(host: str, domain: str) -> bool:
    host, domain = host.lower().rstrip("."), domain.lower().rstrip(".")
    if domain.startswith("*."):
        return host.endswith(domain[1:]) and len(host) > len(domain) - 1
    return host == domain


def _innermost(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The IPv4 address inside an IPv6 address, in any of its four notations."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address
