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


async def test_a_socket_opened_after_its_caller_was_cancelled_is_closed(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, wanted = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    made: asyncio.Queue[socket.socket] = asyncio.Queue()
    bind = hub_sockets._bind

    def bind_late(path: Path) -> socket.socket:
        loop.call_soon_threadsafe(begun.set)
        wanted.wait()
        sock = bind(path)
        loop.call_soon_threadsafe(made.put_nowait, sock)
        return sock

    async def nothing(*_: object) -> None: ...

    monkeypatch.setattr(hub_sockets, "_bind", bind_late)
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


@pytest.mark.parametrize("steps", range(8))
async def test_opening_that_is_cancelled_at_any_step_leaves_no_socket_open(
    short_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    made: list[socket.socket] = []
    bind = hub_sockets._bind

    def bind_and_keep(path: Path) -> socket.socket:
        made.append(bind(path))
        return made[0]

    async def app(scope: object, receive: object, send: object) -> None: ...

    monkeypatch.setattr(hub_sockets, "_bind", bind_and_keep)
    sockets = hub_sockets.HubSockets(lambda _: app, HubSettings(admin_token="a-token"))
    opening = asyncio.create_task(sockets.open(SessionId("s"), "ada", short_path / "hub.sock"))
    while not made:
        await asyncio.sleep(0)
    for _ in range(steps):
        await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait({opening})
    await sockets.aclose()
    await asyncio.get_running_loop().shutdown_default_executor()

    assert all(sock.fileno() < 0 for sock in made)
