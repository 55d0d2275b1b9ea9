"""The hub: a server that connects windows and runtimes, with REST and Socket.IO on one port.

A name is imported when it is first used: commands that only read the hub's settings load no server.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .identity import Identity
    from .server import Hub, serve
    from .settings import HubSettings

__all__ = ["Hub", "HubSettings", "Identity", "serve"]

_HOMES = {"Hub": "server", "HubSettings": "settings", "Identity": "identity", "serve": "server"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value
