"""A proxy for the Agent Client Protocol (ACP) between a client and an agent.

`AcpProxy` stands between the two. The agent's requests for files and terminals go to a session or a
window, its questions also to the hub. Importing this package loads neither a sandbox nor a hub.
"""

from .proxy import AcpProxy

__all__ = ["AcpProxy"]
