"""Streamed responses whose client goes away: nothing that they opened stays open."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from bascule.sandbox.executor import Sandbox
from bascule.sandbox.server.file_routes import FileRoutes
from bascule.sandbox.server.filesystem_routes import FilesystemRoutes
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings
from bascule.serving.asgi import Message
from bascule.serving.owning_stream import OwningStream

SCOPE: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "headers": []}


async def gone() -> Message:
    return {"type": "http.disconnect"}


async def stalled(_message: Message) -> None:
    """Sends to a client that reads nothing."""
    await asyncio.Future()


async def test_everything_is_closed_if_the_client_has_gone_before_the_first_piece() -> None:
    closed: list[str] = []

    async def body() -> AsyncGenerator[bytes, None]:
        yield b"never read"

    owned = AsyncExitStack()
    owned.callback(closed.append, "owned")
    await OwningStream(body(), owned, media_type="text/plain")(dict(SCOPE), gone, stalled)
    assert closed == ["owned"]


async def test_the_body_is_closed_before_what_it_reads() -> None:
    closed: list[str] = []

    async def body() -> AsyncGenerator[bytes, None]:
        try:
            yield b"1"
            yield b"2"
        finally:
            closed.append("body")

    async def waits() -> Message:
        return await asyncio.Future()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            raise RuntimeError("sending failed")

    owned = AsyncExitStack()
    owned.callback(closed.append, "owned")
    with pytest.raises((RuntimeError, BaseExceptionGroup)):
        await OwningStream(body(), owned, media_type="text/plain")(dict(SCOPE), waits, send)
    assert closed == ["body", "owned"]


@pytest.mark.parametrize("endpoint", ["watch", "download"])
async def test_the_sandbox_keeps_nothing_open_for_clients_that_have_gone(
    tmp_path: Path, endpoint: str
) -> None:
    (tmp_path / "file").write_text("x")
    settings = SandboxSettings(shells=ShellSettings(working_dir=tmp_path))
    async with await asyncio.to_thread(Sandbox, settings) as sandbox:
        routes: dict[str, Callable[..., Any]] = {
            "watch": FilesystemRoutes(sandbox).watch,
            "download": FileRoutes(sandbox).download,
        }
        path = {"watch": tmp_path, "download": tmp_path / "file"}[endpoint]
        query = f"path={path}&raw=true".encode()

        async def ask() -> None:
            scope = {**SCOPE, "query_string": query}
            response = await routes[endpoint](Request(scope, gone))
            await response(scope, gone, stalled)

        await ask()  # starts what stays
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            await ask()
        assert len(os.listdir("/proc/self/fd")) <= before
