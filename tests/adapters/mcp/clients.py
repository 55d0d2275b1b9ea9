"""The official client library, over each way to our server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.memory import create_connected_server_and_client_session
from mcp.types import CallToolResult, TextContent

from bascule.adapters.mcp import SingleTarget, ToolTargets
from bascule.adapters.mcp._server import make_server
from bascule.core.contracts import Runtime
from bascule.runtime import LocalRuntime
from bascule.sandbox.settings import SandboxSettings
from tests.cli.processes import environment


@asynccontextmanager
async def at(places: ToolTargets) -> AsyncIterator[ClientSession]:
    """A client of a server in this process."""
    server: Any = make_server(lambda _: places)
    async with create_connected_server_and_client_session(server) as session:
        yield session


@asynccontextmanager
async def over_stdio(*arguments: str, **env: str) -> AsyncIterator[ClientSession]:
    command = ["-m", "bascule", "mcp", *arguments]
    parameters = StdioServerParameters(command=sys.executable, args=command, env=environment(**env))
    async with (
        stdio_client(parameters) as (reading, writing),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        yield session


@asynccontextmanager
async def over_http(url: str, token: str) -> AsyncIterator[ClientSession]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx.AsyncClient(headers=headers, timeout=30) as http,
        streamable_http_client(url, http_client=http) as (reading, writing, _),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        yield session


@asynccontextmanager
async def held(context: AbstractAsyncContextManager[ClientSession]) -> AsyncIterator[ClientSession]:
    """`context` in a task of its own: it wants to be left by the task that entered it, and the two
    halves of a fixture are two tasks."""
    entered: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()

    async def hold() -> None:
        try:
            async with context as session:
                entered.set_result(session)
                await done.wait()
        except Exception as error:
            if entered.done():
                raise
            entered.set_exception(error)

    holding = asyncio.create_task(hold())
    try:
        yield await entered
    finally:
        done.set()
        await holding


def sandbox_in(directory: Path) -> ToolTargets:
    """A sandbox whose file tools stay in `directory`."""
    settings = SandboxSettings(roots=(directory,))
    runtime = LocalRuntime(directory, settings=settings, default_timeout=None)

    async def opened() -> Runtime:
        await runtime.connect()
        return runtime

    return SingleTarget(opened)


async def call(session: ClientSession, tool: str, /, **arguments: Any) -> CallToolResult:
    return await session.call_tool(tool, arguments)


def text_of(result: CallToolResult) -> str:
    return "".join(each.text for each in result.content if isinstance(each, TextContent))


def code_of(result: CallToolResult) -> str:
    """The code of the error that a result tells."""
    assert result.isError, text_of(result)
    assert result.structuredContent is not None
    return str(result.structuredContent["code"])


def names_of(tools: Any) -> set[str]:
    return {tool.name for tool in tools.tools}
