"""An MCP server over a sandbox, a VS Code window, or all windows of a hub.

`bascule mcp` serves one client over standard input and output; `McpMount` serves many at a hub's
`/mcp`. Importing this loads nothing of the MCP library.
"""

from ._mount import McpMount
from ._places import HubPlaces, OnePlace, Places, SessionLine, Sessions

__all__ = ["HubPlaces", "McpMount", "OnePlace", "Places", "SessionLine", "Sessions"]
