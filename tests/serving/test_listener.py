"""The life of a listener's connections."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from dataclasses import dataclass

import pytest

from bascule.serving.asgi import Receive, Scope, Send
from bascule.serving.listener import Listener


@dataclass(frozen=True, slots=True)
class Settings:
    max_head: int = 64 << 10
    request_timeout: float = 60.0
    keep_alive: float = 60.0
    stop_grace: float = 1.0


async def never_called(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("no request was sent")


@pytest.mark.parametrize("passes", range(5))
async def test_a_connection_accepted_just_before_the_stop_is_closed(passes: int) -> None:
    """After two passes of the event loop it is accepted, and has no transport yet."""
    listening = socket.create_server(("127.0.0.1", 0))
    listener = Listener(never_called, Settings())
    await listener.start(listening)
    client = socket.create_connection(listening.getsockname())
    client.setblocking(False)
    for _ in range(passes):
        await asyncio.sleep(0)

    await listener.stop()

    with client:
        async with asyncio.timeout(60):
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.get_running_loop().sock_recv(client, 1) == b""
