"""A revoked token ends at once: whatever it has open is closed, whatever it runs is stopped.

One list of what a token can have open, and one of how it can end.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import aiohttp
import pytest
import socketio

from bascule.adapters.mcp.mount import McpMount
from bascule.adapters.openhands_hub import OpenHandsV0Mount
from bascule.adapters.openhands_workspace import WorkspaceMount
from bascule.core.actions import CmdRun
from bascule.core.errors import AccessDenied
from bascule.core.windows import WindowId
from bascule.hub.database.address import database_address
from bascule.hub.database.store import SqlStore
from bascule.hub.proxy.endpoints import SessionEndpoint as ProxyHub
from bascule.hub.tokens import hash_of
from bascule.hub.web.page import is_built
from bascule.link.http import HttpReply
from bascule.link.hub import HubLink
from bascule.link.socketio import SocketClient
from bascule.wire import to_json
from tests.web.test_access import VISIT, BrowserClient
from tests.web.test_watch import Listener

from .serving import RunningHub
from .sessions.serving import SessionHub, SessionsClient, open_session_hub

pytestmark = pytest.mark.slow

TIMEOUT: Final = 120.0
NAME: Final = "revoked"
_SOCKET: Final = "/socket.io/?EIO=4&transport=websocket"
BUSY: Final = (
    "bash -c 'trap \"touch stopped; exit\" INT TERM HUP; touch began; while :; do sleep 0.05; done'"
)
"""Says that it runs, and that it was made to end."""


@dataclass
class RevocationSetup:
    hub: SessionHub
    admin: SessionsClient
    token: str
    session: str
    stack: AsyncExitStack

    @property
    def workspace(self) -> Path:
        return self.hub.directory / "sessions" / self.session / "workspace"


@pytest.fixture
async def ground() -> AsyncIterator[RevocationSetup]:
    async with AsyncExitStack() as stack:
        mounts = (McpMount, OpenHandsV0Mount, WorkspaceMount)
        hub = await stack.enter_async_context(open_session_hub(mounts=mounts))
        admin = await stack.enter_async_context(SessionsClient(hub.url))
        token = await hub.token(NAME, "agent", owner="admin")
        yield RevocationSetup(hub, admin, token, await admin.ready(), stack)


# How it ends --------------------------------------------------------------------------------


async def by_the_hub(ground: RevocationSetup) -> None:
    await ground.admin.must("DELETE", f"/api/tokens/{NAME}")


async def by_another_process(ground: RevocationSetup) -> None:
    """As `bascule token --revoke` does."""
    async with SqlStore(database_address("", ground.hub.directory)) as store:
        await store.open()
        assert await store.remove_token(NAME)


# What it has open ---------------------------------------------------------------------------

Closed = Callable[[], Awaitable[None]]
"""Returns once it is closed, and what it ran is stopped."""


async def a_runtimes_socket(ground: RevocationSetup) -> Closed:
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


async def a_windows_socket(ground: RevocationSetup) -> Closed:
    token = await _instead(ground, "window")
    socket = SocketClient(ground.hub.url, token, namespace="/window", client="x", handlers={})
    await ground.stack.enter_async_context(socket)
    await socket.connect()

    async def closed() -> None:
        with pytest.raises(AccessDenied):
            await socket.wait_refused()

    return closed


async def a_socket_without_a_namespace(ground: RevocationSetup) -> Closed:
    return await _websocket(ground, _SOCKET, {"Authorization": f"Bearer {ground.token}"})


async def a_websocket_into_a_session(ground: RevocationSetup) -> Closed:
    headers = {"Authorization": f"Bearer {ground.token}"}
    return await _websocket(ground, f"{(await _app(ground)).path}/ws", headers)


async def a_page(ground: RevocationSetup) -> Closed:
    page = await _page(ground)
    return page.closed


async def a_terminal_of_a_page(ground: RevocationSetup) -> Closed:
    """A command that runs in it goes on, as in any terminal that is left; keys do not arrive."""
    page = await _page(ground)
    where = {"session_id": ground.session, "name": "one"}
    opened = await page.ask("terminal.open", **where, columns=80, rows=24)
    assert "error" not in opened, opened
    keys = {**where, "data": b64encode(b"touch began\n").decode()}
    await page.emit("terminal.keys", keys)
    await _appears(ground.workspace / "began")

    async def closed() -> None:
        await page.closed()
        with pytest.raises(socketio.exceptions.BadNamespaceError):
            await page.emit("terminal.keys", keys)
        while ground.hub.hub._feed._viewers:  # the hub reads the terminal's output no longer
            await asyncio.sleep(0.02)

    return closed


async def a_websocket_by_a_sessions_cookie(ground: RevocationSetup) -> Closed:
    """As those of VS Code and of apps that are not sandboxed."""
    place = await _app(ground)
    inside = await _inside(ground, await _signed_in(ground))
    return await _websocket(ground, f"{place.path}/ws", _headers(inside))


async def a_stream_of_events(ground: RevocationSetup) -> Closed:
    asker = await _asker(ground)
    events = asker.events(ground.session)
    await anext(events)

    async def closed() -> None:
        with pytest.raises(Exception, match=r"closed|broke"):
            async for _ in events:
                pass

    return closed


async def an_action_by_rest(ground: RevocationSetup) -> Closed:
    return await _action(ground, f"/api/sessions/{ground.session}/actions", _run(BUSY))


async def an_action_at_the_sandbox(ground: RevocationSetup) -> Closed:
    """As `RemoteRuntime` sends it."""
    where = f"/sandbox/{ground.session}/execute_action"
    asked = {"action": {"id": str(uuid4()), **_run(BUSY)}}
    return await _action(ground, where, asked, {"X-Bascule-Cancel": "interrupt"})


async def an_action_of_openhands(ground: RevocationSetup) -> Closed:
    where = f"/openhands/v0/{ground.session}/execute_action"
    return await _action(ground, where, {"action": {"id": 7, **_run(BUSY)}})


async def an_action_of_openhands_v1(ground: RevocationSetup) -> Closed:
    where = f"/openhands/v1/{ground.session}/api/bash/execute_bash_command"
    return await _action(ground, where, {"command": BUSY, "cwd": ".", "timeout": 600})


async def an_action_of_mcp(ground: RevocationSetup) -> Closed:
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


async def a_program_at_the_sandbox(ground: RevocationSetup) -> Closed:
    """It runs without any connection. A forged header and an encoded path do not hide it."""
    asker = await _asker(ground)
    body, headers = to_json({"argv": ["bash", "-c", BUSY]}), {"Content-Type": "application/json"}
    headers["X-Bascule-Started-By"] = "somebody else"
    where = f"/sandbox/{ground.session}/%70rograms"
    reply = await asker.request("POST", where, body=body, headers=headers)
    assert reply.status == 200, reply.body
    await _appears(ground.workspace / "began")

    async def closed() -> None:
        await _appears(ground.workspace / "stopped")

    return closed


OPENINGS = [
    a_runtimes_socket,
    a_windows_socket,
    a_socket_without_a_namespace,
    a_page,
    a_terminal_of_a_page,
    a_websocket_into_a_session,
    a_websocket_by_a_sessions_cookie,
    a_stream_of_events,
    an_action_by_rest,
    an_action_at_the_sandbox,
    an_action_of_openhands,
    an_action_of_openhands_v1,
    an_action_of_mcp,
    a_program_at_the_sandbox,
]


@pytest.mark.parametrize("revoke", [by_the_hub, by_another_process])
@pytest.mark.parametrize("opening", OPENINGS)
async def test_a_revoked_token_is_rejected_at_once(
    ground: RevocationSetup,
    opening: Callable[[RevocationSetup], Awaitable[Closed]],
    revoke: Callable[[RevocationSetup], Awaitable[None]],
) -> None:
    async with asyncio.timeout(2 * TIMEOUT):
        closed = await opening(ground)
        await revoke(ground)
    async with asyncio.timeout(TIMEOUT):
        await closed()
        while hash_of(ground.token) in ground.hub.hub.leases._held:  # until all of it has ended
            await asyncio.sleep(0.02)
    assert (await ground.admin.run(ground.session, "echo well")) == "well\n"


@pytest.mark.parametrize("revoke", [by_the_hub, by_another_process])
async def test_the_cookies_of_a_revoked_token_are_refused(
    ground: RevocationSetup, revoke: Callable[[RevocationSetup], Awaitable[None]]
) -> None:
    app = (await _app(ground)).path
    browser = await _signed_in(ground)
    inside = await _inside(ground, browser)
    key = {"X-Bascule-Page": await _key(browser)}
    lead = await browser.get(f"{app}/", VISIT)
    assert (await browser.get("/api/sessions", key)).status == 200
    assert (await browser.get("/", VISIT)).status == 200
    assert await _handshake(ground, _SOCKET, browser) == 101
    assert await _handshake(ground, f"{app}/ws", inside) == 101

    await revoke(ground)
    assert (await browser.get("/api/sessions", key)).status == 401
    assert await _handshake(ground, _SOCKET, browser) == 401
    assert await _handshake(ground, f"{app}/ws", inside) == 401
    pages = f"{app}/", f"/vscode/{ground.session}/"
    for where in ("/", f"/watch/{ground.session}", *pages):
        reply = await browser.get(where, VISIT)
        assert "/sign-in?" in reply.headers["location"], where
    for where in pages:
        assert (await inside.get(where)).status == 401, where
        back = await inside.get(where, VISIT)
        assert (back.status, back.headers["location"]) == (303, browser.page + where)
    # A code that was given before makes a cookie that opens nothing.
    await _take_cookie(inside, lead)
    assert (await inside.get(pages[0])).status == 401


async def test_an_expired_token_is_rejected_too() -> None:
    async with RunningHub() as place:
        token = await place.token("short", "agent", lifetime=2.0)
        link = HubLink(place.url, token)
        async with link, asyncio.timeout(TIMEOUT):
            await link.connect()
            with pytest.raises(AccessDenied):
                await link._socket.wait_refused()


async def test_other_tokens_of_the_same_owner_keep_working(ground: RevocationSetup) -> None:
    other = await ground.hub.token("the other", "agent", owner="admin")
    async with HubLink(ground.hub.url, other) as link:
        await link.connect()
        closed = await a_socket_without_a_namespace(ground)
        await by_the_hub(ground)
        async with asyncio.timeout(TIMEOUT):
            await closed()
        assert await link.windows() == []


# ----------------------------------------------------------------------------------------------


async def _instead(ground: RevocationSetup, scope: Any) -> str:
    """A token of another scope, under the same name."""
    assert await ground.hub.hub.tokens.revoke(NAME)
    ground.token = await ground.hub.token(NAME, scope, owner="admin")
    return ground.token


async def _signed_in(ground: RevocationSetup) -> BrowserClient:
    browser = await ground.stack.enter_async_context(BrowserClient(ground.hub))
    assert (await browser.sign_in(ground.token)).status == 200
    return browser


async def _key(browser: BrowserClient) -> str:
    if not await asyncio.to_thread(is_built):
        pytest.skip("the page is not built; scripts/web builds it")
    return await browser.key()


async def _page(ground: RevocationSetup) -> Listener:
    browser = await _signed_in(ground)
    page = Listener.open(browser, await _key(browser))
    made = await ground.stack.enter_async_context(page)
    await made.hello
    return made


async def _inside(ground: RevocationSetup, browser: BrowserClient) -> BrowserClient:
    """The same browser at the session's own origin, with the cookie that it got on the way."""
    host = ground.hub.session_url(ground.session).removeprefix("http://")
    inside = await ground.stack.enter_async_context(BrowserClient(ground.hub, host))
    await _take_cookie(inside, await browser.get(f"/vscode/{ground.session}/", VISIT))
    return inside


async def _take_cookie(inside: BrowserClient, lead: HttpReply) -> None:
    """From the hub's redirect, which has a code that is good once."""
    origin = f"http://{inside.host['Host']}"
    assert lead.headers["location"].startswith(f"{origin}/_bascule/enter?code="), lead
    reply = await inside.get(lead.headers["location"].removeprefix(origin), VISIT)
    inside.cookie = reply.headers["set-cookie"].partition(";")[0]


def _headers(browser: BrowserClient) -> dict[str, str]:
    """What a page sends with a WebSocket."""
    host = browser.host["Host"]
    return {"Host": host, "Cookie": browser.cookie, "Origin": f"http://{host}"}


async def _handshake(ground: RevocationSetup, where: str, browser: BrowserClient) -> int:
    """The status that a WebSocket is answered with."""
    async with aiohttp.ClientSession() as client:
        try:
            socket = await client.ws_connect(ground.hub.url + where, headers=_headers(browser))
        except aiohttp.WSServerHandshakeError as error:
            return error.status
        await socket.close()
        return 101


async def _websocket(ground: RevocationSetup, where: str, headers: dict[str, str]) -> Closed:
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
    each.recv(4096)
    each.close()
while True:
    threading.Thread(target=talk, args=made.accept()[:1], daemon=True).start()
"""


async def _app(ground: RevocationSetup) -> ProxyHub:
    """A program of the session that takes a WebSocket."""
    write = {"action": "write", "args": {"path": "server.py", "content": _SERVER}}
    await ground.admin.must("POST", f"/api/sessions/{ground.session}/actions", write)
    await ground.admin.run(ground.session, "python3 server.py >/dev/null 2>&1 &")
    async for name, data in ground.admin.events(ground.session):
        if name == "port.opened":
            return ProxyHub("apps", ground.session, data["n"])
    raise AssertionError("the app never listened")


async def _asker(ground: RevocationSetup) -> SessionsClient:
    return await ground.stack.enter_async_context(
        SessionsClient(ground.hub.url, token=ground.token)
    )


async def _action(
    ground: RevocationSetup, where: str, asked: Any, headers: dict[str, str] | None = None
) -> Closed:
    asker = await _asker(ground)
    acting = asyncio.create_task(asker.ask("POST", where, asked, headers=headers))
    await _appears(ground.workspace / "began", acting)
    return _stopped(ground, acting)


def _stopped(ground: RevocationSetup, acting: asyncio.Task[Any]) -> Closed:
    async def closed() -> None:
        ended: Any = (await asyncio.gather(acting, return_exceptions=True))[0]
        if not isinstance(ended, Exception):
            assert (ended.status if isinstance(ended, HttpReply) else ended[0]) != 200, ended
        await _appears(ground.workspace / "stopped")

    return closed


def _run(command: str) -> dict[str, Any]:
    return {"action": "run", "args": {"command": command, "blocking": True}, "timeout": 600}


def _rpc(method: str, params: object, number: int | None) -> bytes:
    asked = {"jsonrpc": "2.0", "method": method, "params": params}
    return to_json(asked if number is None else {**asked, "id": number})


async def _appears(path: Path, unless: asyncio.Task[Any] | None = None) -> None:
    """Polls: another process makes it."""
    while not await asyncio.to_thread(path.exists):
        assert unless is None or not unless.done(), unless
        await asyncio.sleep(0.02)
