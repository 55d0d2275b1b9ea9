"""An action server on a loopback socket, and a client that shows status and bytes as they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bascule.link.http import HttpClient, HttpReply
from bascule.sandbox.server.server import SandboxServer
from bascule.sandbox.settings import SandboxSettings, ServerSettings
from bascule.sandbox.shell.settings import ShellSettings
from bascule.wire import from_json, to_json

KEY = "a-key-for-tests"


class Client(HttpClient):
    """Asks and decodes; the key comes along unless told otherwise."""

    def __init__(self, url: str, *, key: str = KEY) -> None:
        super().__init__(url, headers={"X-Session-API-Key": key} if key else {})

    async def get(self, target: str) -> tuple[int, Any]:
        return decoded(await self.request("GET", target, timeout=30))

    async def post(self, target: str, value: object) -> tuple[int, Any]:
        return decoded(await self.request("POST", target, body=to_json(value), timeout=30))

    async def act(
        self, kind: str, headers: Mapping[str, str] | None = None, **args: Any
    ) -> dict[str, Any]:
        """Do an action as OpenHands sends it, without an id; the observation."""
        event = {"action": kind, "args": args}
        reply = await self.request(
            "POST", "/execute_action", body=to_json({"action": event}), headers=headers, timeout=30
        )
        assert reply.status == 200, reply.body
        answer: dict[str, Any] = from_json(reply.body)
        return answer


def decoded(reply: HttpReply) -> tuple[int, Any]:
    is_json = reply.headers.get("content-type") == "application/json"
    return reply.status, from_json(reply.body) if is_json else reply.body


@asynccontextmanager
async def serving(working_dir: Path, **settings: Any) -> AsyncIterator[SandboxServer]:
    shells = ShellSettings(working_dir=working_dir)
    server = SandboxServer(ServerSettings(key=KEY, **settings), SandboxSettings(shells=shells))
    async with server:
        yield server


def address(server: SandboxServer) -> tuple[str, int]:
    host, _, port = server.url.removeprefix("http://").partition(":")
    return host, int(port)


@asynccontextmanager
async def raw(
    server: SandboxServer,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A bare connection, for what no client would send."""
    reader, writer = await asyncio.open_connection(*address(server))
    try:
        yield reader, writer
    finally:
        writer.close()
