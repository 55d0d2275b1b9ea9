"""The reverse proxy on the hub's port, from browsers and programs to the servers of sessions."""

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
