"""The hub: a server that connects windows and runtimes, with REST and Socket.IO on one port.

Names are imported on first use, so that commands which only read the settings load no server.
"""

from typing import TYPE_CHECKING

from bascule.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .identity import Identity
    from .server import Hub, serve
    from .settings import HubSettings

__all__ = ["Hub", "HubSettings", "Identity", "serve"]

_HOMES = {"Hub": "server", "HubSettings": "settings", "Identity": "identity", "serve": "server"}

__getattr__ = lazy_exports(__name__, _HOMES)
