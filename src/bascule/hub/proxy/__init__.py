"""The reverse proxy from browsers and programs to the servers of a session, on the hub's
own port."""

from .addresses import HubAddresses
from .endpoints import SessionEndpoint
from .proxy import Proxy
from .routes import MemoryRoutes, ProxyRoutes, UpstreamServer

__all__ = [
    "HubAddresses",
    "MemoryRoutes",
    "Proxy",
    "ProxyRoutes",
    "SessionEndpoint",
    "UpstreamServer",
]
