"""Serves the ACP client that started this process, over stdin and stdout."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final

from bascule.core.errors import BasculeError
from bascule.core.programs import Program

from .oversight import HubOversight
from .peers import AgentPeer, ClientPeer
from .proxy import AcpEnd, AcpProxy
from .workspaces import AgentCommand, AgentWorkspace

logger = logging.getLogger(__name__)

_END_TIMEOUT: Final = 30.0
"""Seconds to wait for the agent to end. Its sandbox ends it anyway when nobody reads its output."""


async def serve_client(
    workspace: AgentWorkspace,
    command: AgentCommand,
    *,
    oversight: HubOversight | None = None,
    asks_client: bool = True,
) -> int:
    """Run the agent until it ends or the client disconnects. Returns the exit code.

    When this returns, the agent and all its children have ended. Cancelling ends them too.
    """
    client = await ClientPeer.open()
    program = await workspace.start_agent(command)
    try:
        proxy = AcpProxy(
            client,
            AgentPeer(program),
            workspace,
            oversight=oversight,
            asks_client=asks_client,
        )
        end = await proxy.run()
        if end is AcpEnd.CLIENT:
            return 0
        status = await program.wait()
        return status if status >= 0 else 128 - status
    finally:
        await _end(program)


async def _end(program: Program) -> None:
    with suppress(BasculeError):  # its sandbox may have ended, and the agent with it
        try:
            async with asyncio.timeout(_END_TIMEOUT):
                await program.kill()
        except TimeoutError:
            logger.warning("the agent has not ended after %g seconds", _END_TIMEOUT)
