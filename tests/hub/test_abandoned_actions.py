"""Nobody waits any more: windows are told, unless somebody asks again in time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from bascule.core.errors import BasculeError
from bascule.core.identity import EventId
from bascule.core.windows import WindowId
from bascule.hub.abandoned_actions import AbandonedActions
from bascule.hub.registry import Host
from bascule.hub.switchboard import Caller, Event, PendingAction, Switchboard
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings
from bascule.testing.window import FakeWindow
from bascule.wire import to_json

from .serving import Client, RunningHub

HOST = Host("host", "sid", WindowId("window"), "owner", 1)


class Somebody(Caller):
    agent = "Ann"
    agent_id = "1"

    async def answer(self, observation: Event) -> None:
        raise NotImplementedError

    async def progress(self, frame: Event) -> None:
        raise NotImplementedError

    async def fail(self, action_id: EventId, error: BasculeError) -> None:
        raise NotImplementedError


async def test_a_window_is_told_which_actions_no_client_asked_for_again() -> None:
    switchboard = Switchboard(limit=10, on_end=lambda *_: None)
    told: asyncio.Queue[tuple[Host, Sequence[EventId]]] = asyncio.Queue()

    async def tell(host: Host, ids: Sequence[EventId]) -> None:
        told.put_nowait((host, ids))

    abandoned = AbandonedActions(switchboard, tell, grace=0.01)
    gone, back = Somebody(), Somebody()
    for each in ("lost", "asked again"):
        switchboard.begin(PendingAction(EventId(each), "run", HOST.window_id, HOST, gone))
    left = switchboard.leave(gone)
    switchboard.begin(PendingAction(EventId("asked again"), "run", HOST.window_id, HOST, back))
    abandoned.watch(left)
    assert await told.get() == (HOST, ["lost"])
    await abandoned.aclose()
    assert told.empty()


async def test_a_window_is_told_that_an_http_caller_left_and_the_action_continues(
    tmp_path: Path,
) -> None:
    os.mkfifo(tmp_path / "gate")
    event = {"id": str(uuid4()), "action": "run", "args": {"command": "cat gate"}}
    told: asyncio.Queue[Any] = asyncio.Queue()

    async def left(data: Any) -> None:
        told.put_nowait(data)

    settings = SandboxSettings(shells=ShellSettings(working_dir=tmp_path))
    async with RunningHub() as hub, FakeWindow(hub.url, hub.window, settings) as window:
        window._socket._handlers = {**window._socket._handlers, "askers.left": left}
        await window.connect()
        hub.hub._sockets._abandoned._grace = 0.01
        target = f"/api/vscode/instance/{window.id}/actions"
        writer = await post(hub, target, event)
        gate = await asyncio.to_thread(os.open, tmp_path / "gate", os.O_WRONLY)  # once it is read
        writer.close()
        async with asyncio.timeout(30):
            assert await told.get() == {"ids": [event["id"]]}
        async with Client(hub.url, token=hub.agent) as again:
            asking = asyncio.create_task(again.ask("POST", target, event))
            os.write(gate, b"done\n")
            os.close(gate)
            status, seen = await asking
    assert (status, seen["content"]) == (200, "done\n")


async def post(hub: RunningHub, target: str, event: object) -> asyncio.StreamWriter:
    """Send an action over a connection of its own and do not wait for the answer."""
    _, writer = await asyncio.open_connection("127.0.0.1", hub.port)
    body = to_json(event)
    head = (
        f"POST {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {hub.agent}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()
    return writer
