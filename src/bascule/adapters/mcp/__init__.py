"""An MCP server over a sandbox, or over the windows and sessions of a hub.

`stdio` serves one client over standard input and output; `mount` serves many at a hub's `/mcp`.
Importing this package loads neither the MCP library nor a hub.
"""

from ._sessions import RemoteSessions
from ._targets import HubTargets, SingleTarget, ToolTargets

__all__ = ["HubTargets", "RemoteSessions", "SingleTarget", "ToolTargets"]
