"""The hub's socket in a session."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path

import pytest

from bascule.core.sessions import SessionId
from bascule.hub import HubSettings
from bascule.hub.sessions import hub_sockets


async def test_a_door_that_nobody_waits_for_any_more_is_closed(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, wanted = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    made: asyncio.Queue[socket.socket] = asyncio.Queue()
    bind = hub_sockets._bound

    def bind_late(path: Path) -> socket.socket:
        loop.call_soon_threadsafe(begun.set)
        wanted.wait()
        sock = bind(path)
        loop.call_soon_threadsafe(made.put_nowait, sock)
        return sock

    async def nothing(*_: object) -> None: ...

    monkeypatch.setattr(hub_sockets, "_bound", bind_late)
    all_doors = hub_sockets.HubSockets(lambda _: nothing, HubSettings(admin_token="a-token"))
    opening = asyncio.create_task(all_doors.open(SessionId("s"), "ada", short_path / "door"))
    await begun.wait()
    opening.cancel()
    await asyncio.wait({opening})
    wanted.set()

    sock = await made.get()
    while sock.fileno() >= 0:
        await asyncio.sleep(0)
    assert opening.cancelled()
