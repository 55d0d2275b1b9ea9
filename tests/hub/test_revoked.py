"""A revoked token ends at once: whatever it has open is closed, whatever it runs is stopped.

One list of what a token can have open, and one of how it can end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import aiohttp
import pytest

from bascule.adapters.mcp.mount import McpMount
from bascule.adapters.openhands_hub import OpenHandsV0Mount
from bascule.core.actions import CmdRun
from bascule.core.errors import AccessDenied
from bascule.core.windows import WindowId
from bascule.hub.database.address import database_address
from bascule.hub.database.store import SqlStore
from bascule.hub.proxy.places import Place as ProxyPlace
from bascule.hub.tokens import hash_of
from bascule.link.http import Reply
from bascule.link.hub import HubLink
from bascule.link.socketio import SocketClient

from .serving import Place
from .sessions.serving import Asker, SessionPlace
from .sessions.serving import place as session_place

pytestmark = pytest.mark.slow

PATIENCE: Final = 30.0
NAME: Final = "revoked"
BUSY: Final = (
    "bash -c 'trap \"touch stopped; exit\" INT TERM HUP; touch began; while :; do sleep 0.05; done'"
)
"""Says that it runs, and that it was made to end."""


@dataclass
class Ground:
    hub: SessionPlace
    admin: Asker
    token: str
    session: str
    stack: AsyncExitStack

    @property
    def workspace(self) -> Path:
        return self.hub.directory / "sessions" / self.session / "workspace"


@pytest.fixture
async def ground() -> AsyncIterator[Ground]:
    async with AsyncExitStack() as stack:
        mounts = (McpMount, OpenHandsV0Mount)
        hub = await stack.enter_async_context(session_place(mounts=mounts))
        admin = await stack.enter_async_context(Asker(hub.url))
        token = await hub.token(NAME, "agent", owner="admin")
        yield Ground(hub, admin, token, await admin.ready(), stack)


# How it ends --------------------------------------------------------------------------------


async def by_the_hub(ground: Ground) -> None:
    await ground.admin.must("DELETE", f"/api/tokens/{NAME}")


async def by_another_process(ground: Ground) -> None:
    """As `bascule token --revoke` does."""
    async with SqlStore(database_address("", ground.hub.directory)) as store:
        await store.open()
        assert await store.remove_token(NAME)


# What it has open ---------------------------------------------------------------------------

Closed = Callable[[], Awaitable[None]]
"""Returns once it is closed, and what it ran is stopped."""


async def a_runtimes_socket(ground: Ground) -> Closed:
    folder = ground.hub.directory / "elsewhere"
    await asyncio.to_thread(folder.mkdir)
    window = await ground.stack.enter_async_context(ground.hub.fake_window(folder))
    link = HubLink(ground.hub.url, ground.token)
    await ground.stack.enter_async_context(link)
    await link.connect()
    acting = asyncio.create_task(link.act(WindowId(window.id), CmdRun(BUSY)))
    await _appears(folder / "began")

    async def closed() -> None:
        with pytest.raises(AccessDenied):
            await link._socket.wait_refused()
        await _appears(folder / "stopped")
        acting.cancel()
        await asyncio.gather(acting, return_exceptions=True)

    return closed


async def a_windows_socket(ground: Ground) -> Closed:
    token = await _instead(ground, "window")
    socket = SocketClient(ground.hub.url, token, namespace="/window", client="x", handlers={})
    await ground.stack.enter_async_context(socket)
    await socket.connect()

    async def closed() -> None:
        with pytest.raises(AccessDenied):
            await socket.wait_refused()

    return closed


async def a_socket_without_a_namespace(ground: Ground) -> Closed:
    return await _websocket(
        ground,
        "/socket.io/?EIO=4&transport=websocket",
        {"Authorization": f"Bearer {ground.token}"},
    )


async def a_websocket_into_a_session(ground: Ground) -> Closed:
    headers = {"Authorization": f"Bearer {ground.token}"}
    return await _websocket(ground, f"{(await _app(ground)).path}/ws", headers)


async def a_stream_of_events(ground: Ground) -> Closed:
    asker = await _asker(ground)
    events = asker.events(ground.session)
    await anext(events)

    async def closed() -> None:
        with pytest.raises(Exception, match=r"closed|broke"):
            async for _ in events:
                pass

    return closed


async def an_action_by_rest(ground: Ground) -> Closed:
    return await _action(ground, f"/api/sessions/{ground.session}/actions", _run(BUSY))


async def an_action_at_the_sandbox(ground: Ground) -> Closed:
    """As `RemoteRuntime` sends it."""
    where = f"/sandbox/{ground.session}/execute_action"
    asked = {"action": {"id": str(uuid4()), **_run(BUSY)}}
    return await _action(ground, where, asked, {"X-Bascule-Cancel": "interrupt"})


async def an_action_of_openhands(ground: Ground) -> Closed:
    where = f"/openhands/v0/{ground.session}/execute_action"
    return await _action(ground, where, {"action": {"id": 7, **_run(BUSY)}})


async def an_action_of_mcp(ground: Ground) -> Closed:
    asker = await _asker(ground)
    accept = {"Accept": "application/json, text/event-stream"}
    where = f"/mcp/{ground.session}"
    asked: dict[str, Any] = {"protocolVersion": "2025-06-18", "capabilities": {}}
    asked["clientInfo"] = {"name": "x", "version": "1"}
    reply = await asker.request(
        "POST",
        where,
        body=_rpc("initialize", asked, 1),
        headers={"Content-Type": "application/json", **accept},
    )
    assert reply.status == 200, reply.body
    accept |= {"Mcp-Session-Id": reply.headers["mcp-session-id"]}
    accept |= {"Content-Type": "application/json"}
    await asker.request(
        "POST", where, body=_rpc("notifications/initialized", {}, None), headers=accept
    )
    call = {"name": "run_command", "arguments": {"command": BUSY}}
    acting = asyncio.create_task(
        asker.request("POST", where, body=_rpc("tools/call", call, 2), headers=accept)
    )
    await _appears(ground.workspace / "began", acting)
    return _stopped(ground, acting)


OPENINGS = [
    a_runtimes_socket,
    a_windows_socket,
    a_socket_without_a_namespace,
    a_websocket_into_a_session,
    a_stream_of_events,
    an_action_by_rest,
    an_action_at_the_sandbox,
    an_action_of_openhands,
    an_action_of_mcp,
]


@pytest.mark.parametrize("revoke", [by_the_hub, by_another_process])
@pytest.mark.parametrize("opening", OPENINGS)
async def test_a_revoked_token_ends_at_once(
    ground: Ground,
    opening: Callable[[Ground], Awaitable[Closed]],
    revoke: Callable[[Ground], Awaitable[None]],
) -> None:
    async with asyncio.timeout(2 * PATIENCE):
        closed = await opening(ground)
        await revoke(ground)
    async with asyncio.timeout(PATIENCE):
        await closed()
    assert hash_of(ground.token) not in ground.hub.hub.leases._held
    assert (await ground.admin.run(ground.session, "echo well")) == "well\n"


async def test_a_token_that_expires_ends_as_well() -> None:
    async with Place() as place:
        token = await place.token("short", "agent", lifetime=2.0)
        link = HubLink(place.url, token)
        async with link, asyncio.timeout(PATIENCE):
            await link.connect()
            with pytest.raises(AccessDenied):
                await link._socket.wait_refused()


async def test_other_tokens_of_the_same_owner_go_on(ground: Ground) -> None:
    other = await ground.hub.token("the other", "agent", owner="admin")
    async with HubLink(ground.hub.url, other) as link:
        await link.connect()
        closed = await a_socket_without_a_namespace(ground)
        await by_the_hub(ground)
        async with asyncio.timeout(PATIENCE):
            await closed()
        assert await link.windows() == []


# ----------------------------------------------------------------------------------------------


async def _instead(ground: Ground, scope: Any) -> str:
    """A token of another scope, under the same name."""
    assert await ground.hub.hub.tokens.revoke(NAME)
    ground.token = await ground.hub.token(NAME, scope, owner="admin")
    return ground.token


async def _websocket(ground: Ground, where: str, headers: dict[str, str]) -> Closed:
    client = await ground.stack.enter_async_context(aiohttp.ClientSession())
    socket = await client.ws_connect(ground.hub.url + where, headers=headers)
    first = await socket.receive()
    assert first.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY)

    async def closed() -> None:
        ends = (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)
        while (await socket.receive()).type not in ends:
            pass
        await socket.close()

    return closed


_SERVER: Final = r"""
import base64, hashlib, socket, threading
made = socket.create_server(("127.0.0.1", 0))
def talk(each):
    head = b""
    while b"\r\n\r\n" not in head:
        head += each.recv(4096)
    key = next(l for l in head.split(b"\r\n") if l.lower().startswith(b"sec-websocket-key"))
    key = key.split(b":")[1].strip() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    told = base64.b64encode(hashlib.sha1(key).digest())
    each.sendall(b"HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                 b"Sec-WebSocket-Accept: " + told + b"\r\n\r\n\x81\x02hi")
    while each.recv(4096):
        pass
while True:
    threading.Thread(target=talk, args=made.accept()[:1], daemon=True).start()
"""


async def _app(ground: Ground) -> ProxyPlace:
    """A program of the session that takes a WebSocket."""
    write = {"action": "write", "args": {"path": "server.py", "content": _SERVER}}
    await ground.admin.must("POST", f"/api/sessions/{ground.session}/actions", write)
    await ground.admin.run(ground.session, "python3 server.py >/dev/null 2>&1 &")
    async for name, data in ground.admin.events(ground.session):
        if name == "port.opened":
            return ProxyPlace("apps", ground.session, data["n"])
    raise AssertionError("the app never listened")


async def _asker(ground: Ground) -> Asker:
    return await ground.stack.enter_async_context(Asker(ground.hub.url, token=ground.token))


async def _action(
    ground: Ground, where: str, asked: Any, headers: dict[str, str] | None = None
) -> Closed:
    asker = await _asker(ground)
    acting = asyncio.create_task(asker.ask("POST", where, asked, headers=headers))
    await _appears(ground.workspace / "began", acting)
    return _stopped(ground, acting)


def _stopped(ground: Ground, acting: asyncio.Task[Any]) -> Closed:
    async def closed() -> None:
        ended: Any = (await asyncio.gather(acting, return_exceptions=True))[0]
        if not isinstance(ended, Exception):
            assert (ended.status if isinstance(ended, Reply) else ended[0]) != 200, ended
        await _appears(ground.workspace / "stopped")

    return closed


def _run(command: str) -> dict[str, Any]:
    return {"action": "run", "args": {"command": command, "blocking": True}, "timeout": 600}


def _rpc(method: str, params: object, number: int | None) -> bytes:
    from bascule.wire import to_json

    asked = {"jsonrpc": "2.0", "method": method, "params": params}
    return to_json(asked if number is None else {**asked, "id": number})


async def _appears(path: Path, unless: asyncio.Task[Any] | None = None) -> None:
    """Polls: another process makes it."""
    while not await asyncio.to_thread(path.exists):
        assert unless is None or not unless.done(), unless
        await asyncio.sleep(0.02)
