"""The server where windows and runtimes meet: REST and Socket.IO on one port."""

from .identity import Identity
from .server import Hub, serve
from .settings import HubSettings

__all__ = ["Hub", "HubSettings", "Identity", "serve"]
