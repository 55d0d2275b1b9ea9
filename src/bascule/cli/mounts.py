"""The adapters that a hub serves besides its own API."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bascule.hub.mounts import MakeMount


def adapter_mounts() -> tuple[MakeMount, ...]:
    from bascule.adapters.e2b import E2BMount
    from bascule.adapters.mcp.mount import McpMount
    from bascule.adapters.openhands_hub import OpenHandsV0Mount
    from bascule.adapters.openhands_workspace import WorkspaceMount
    from bascule.adapters.swe_rex import SweRexMount

    return (McpMount, OpenHandsV0Mount, WorkspaceMount, E2BMount, SweRexMount)
