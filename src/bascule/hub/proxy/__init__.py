"""The way from a browser to what runs in a session, on the hub's own port."""

from .addresses import Addresses
from .endpoints import Place
from .proxy import Proxy
from .routes import MemoryRoutes, Routes, Target

__all__ = ["Addresses", "MemoryRoutes", "Place", "Proxy", "Routes", "Target"]
