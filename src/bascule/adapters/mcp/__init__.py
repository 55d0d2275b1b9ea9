"""An MCP server over a sandbox, or over the windows and sessions of a hub.

`stdio` serves one client over standard input and output; `mount` serves many at a hub's `/mcp`.
Importing this loads neither the MCP library nor a hub.
"""

from ._sessions import FarSessions
from ._targets import HubPlaces, OnePlace, Places

__all__ = ["FarSessions", "HubPlaces", "OnePlace", "Places"]
