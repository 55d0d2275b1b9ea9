"""Translates E2B's network settings into the egress of a session."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bascule.core.errors import InvalidRequest, NotSupported
from bascule.core.sessions import Egress

from ._fields import flag_of, list_of, object_of

_EVERYTHING: Final = frozenset({"0.0.0.0/0", "::/0"})
_DOMAIN: Final = re.compile(r"(\*\.)?([a-z0-9-]{1,63}\.)+[a-z][a-z0-9-]{0,62}", re.IGNORECASE)


def read_egress(allows_internet: bool, network: Mapping[str, Any]) -> Egress:
    """The egress for a request: none if neither `allows_internet` nor `network` asks for one.

    Raises `NotSupported` for rules that sessions do not have.
    """
    allowed, denied = list_of(network, "allowOut"), list_of(network, "denyOut")
    for name in ("rules", "egressProxy"):
        if object_of(network, name):
            raise NotSupported(f"`network.{name}` is not supported; leave it out")
    # Only checks the type: this hub asks for a key with either value.
    flag_of(network, "allowPublicTraffic", default=True)
    if unknown := set(denied) - _EVERYTHING:
        raise NotSupported(
            f"`network.denyOut` may only deny everything (0.0.0.0/0), not {sorted(unknown)[0]!r}; "
            "name the domains to allow in `allowOut`"
        )
    if _EVERYTHING & set(allowed):
        return Egress(mode="open")
    if allowed:
        return Egress(mode="proxy", domains=_domains(allowed))
    if denied or not allows_internet:
        return Egress(mode="off")
    return Egress(mode="open")


def _domains(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if not _DOMAIN.fullmatch(name):
            raise InvalidRequest(
                f"`network.allowOut` has {name!r}; sessions can reach domains such as example.org "
                "or *.example.org, and everything with 0.0.0.0/0"
            )
    return tuple(names)


def network_json(egress: Egress) -> Mapping[str, Any]:
    """The network settings of a sandbox as E2B's clients read them."""
    denied = [] if egress.mode == "open" else ["0.0.0.0/0"]
    return {
        "allowOut": list(egress.domains),
        "denyOut": denied,
        "allowPublicTraffic": False,
    }
