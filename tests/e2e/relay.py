"""Stands between a net and the window it asks, and notes what they say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.typing import Subprotocol


@dataclass(slots=True)
class Relay:
    """What was asked of the window, and what it answered, since `clear`."""

    port: int = 0
    asked: list[dict[str, Any]] = field(default_factory=list)
    answered: list[dict[str, Any]] = field(default_factory=list)

    def clear(self) -> None:
        self.asked.clear()
        self.answered.clear()


@asynccontextmanager
async def relaying(port: int) -> AsyncIterator[Relay]:
    """To the bridge server of the window that listens at `port` while something runs."""
    relay = Relay()

    async def pass_on(client: ServerConnection) -> None:
        assert client.request is not None
        token = client.request.headers["Authorization"]
        chosen = [Subprotocol(client.subprotocol)] if client.subprotocol else None
        async with connect(
            f"ws://127.0.0.1:{port}/",
            additional_headers={"Authorization": token},
            subprotocols=chosen,
            proxy=None,
        ) as window:
            up = asyncio.create_task(_note(client, window, relay.asked))
            down = asyncio.create_task(_note(window, client, relay.answered))
            await asyncio.wait([up, down], return_when=asyncio.FIRST_COMPLETED)
            up.cancel()
            down.cancel()

    names = [Subprotocol("bascule.bridge.v1")]
    async with serve(pass_on, "127.0.0.1", 0, subprotocols=names) as server:
        relay.port = next(iter(server.sockets)).getsockname()[1]
        yield relay


async def _note(source: Any, target: Any, noted: list[dict[str, Any]]) -> None:
    async for text in source:
        message = json.loads(text)
        if message.get("type") != "bridge/hello":
            noted.append(message)
        await target.send(text)
