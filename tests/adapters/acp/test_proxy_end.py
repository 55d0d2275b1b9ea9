"""The end of a conversation whose agent no longer reads, in one process with a real program."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bascule.adapters.acp.peers import AgentPeer, ClientPeer
from bascule.adapters.acp.proxy import AcpEnd, AcpProxy
from bascule.adapters.acp.workspaces import AgentCommand, SessionWorkspace
from bascule.runtime import LocalRuntime

pytestmark = pytest.mark.slow

READY = {"jsonrpc": "2.0", "method": "ready", "params": {}}


class Logged(logging.Handler):
    """Waits for a warning of the proxy."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.first: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def emit(self, record: logging.LogRecord) -> None:
        if not self.first.done():
            self.first.set_result(record.getMessage())


@pytest.fixture
async def logged() -> AsyncIterator[Logged]:
    logger, handler = logging.getLogger("bascule.adapters.acp.proxy"), Logged()
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


async def test_a_client_that_leaves_an_agent_which_does_not_read_ends_the_conversation(
    tmp_path: Path, logged: Logged
) -> None:
    near, far = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=far)
    client_reader, client_writer = await asyncio.open_connection(sock=near)
    script = f"exec 0<&-; echo '{json.dumps(READY)}'; read line < fifo; echo \"$line\"; sleep 1000"
    await asyncio.to_thread(os.mkfifo, tmp_path / "fifo")
    async with LocalRuntime(tmp_path) as runtime, asyncio.timeout(100):
        workspace = SessionWorkspace(runtime, runtime)
        program = await workspace.start_agent(AgentCommand(argv=["sh", "-c", script]))
        proxy = AcpProxy(ClientPeer(reader, writer), AgentPeer(program), workspace)
        running = asyncio.create_task(proxy.run())
        assert json.loads(await client_reader.readline()) == READY
        request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
        client_writer.write(json.dumps(request).encode() + b"\n")
        assert "cannot be written to" in await logged.first
        later = {**READY, "method": "later"}
        await asyncio.to_thread((tmp_path / "fifo").write_text, json.dumps(later) + "\n")
        assert json.loads(await client_reader.readline()) == later  # its output still arrives
        client_writer.close()
        assert await running is AcpEnd.CLIENT
        await program.kill()
    writer.close()
