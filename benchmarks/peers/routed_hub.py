"""A hub with one route: `routed_hub PORT TARGET_PORT TOKEN PATH`."""

from __future__ import annotations

import asyncio
import sys

import uvloop

from bascule.hub import Hub, HubSettings
from bascule.hub.proxy import MemoryRoutes, SessionEndpoint, UpstreamServer


async def main(port: int, target: int, token: str, path: str) -> None:
    routes = MemoryRoutes()
    routes.set(
        SessionEndpoint("vscode", path.rpartition("/")[2]),
        UpstreamServer(port=target),
        owner="admin",
    )
    async with Hub(HubSettings(admin_token=token, port=port), routes=routes):
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]))
