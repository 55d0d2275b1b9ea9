"""What a session's window, or whoever claims to be one, can do to the hub and to its owner."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from bascule.core.actions import CmdRun
from bascule.core.printable import OneLineFormatter
from bascule.core.windows import WindowId
from bascule.hub.approvals import MAX_QUESTIONS_EACH
from bascule.hub.registry import Host
from bascule.hub.sockets import MAX_WINDOWS
from bascule.link.hub import HubLink
from bascule.link.socketio import SocketClient
from bascule.runtime.vscode import VSCodeRuntime

from .serving import Client, RunningHub

SESSION = "a" * 25


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    async with RunningHub(tmp_path / "state", heartbeat=30.0) as hub:
        yield hub


class HostileWindow:
    """A window of a session, with nothing behind it."""

    def __init__(self, hub: RunningHub, token: str) -> None:
        self._place = hub
        self._token = token
        self.id = str(uuid4())
        self.got: list[Any] = []
        self._nonce: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def greeted(hello: Any) -> None:
            self._nonce.set_result(hello["nonce"])

        async def event(data: Any) -> None:
            self.got.append(data)

        async def health(_: Any) -> Any:
            return {"ok": True}

        self.socket = SocketClient(
            hub.url,
            token,
            namespace="/window",
            client="x",
            handlers={"oh_event": event, "health": health},
            on_connected=greeted,
        )

    async def register(self, **said: Any) -> tuple[int, Any]:
        await self.socket.connect()
        body = {
            "nonce": await self._nonce,
            "window_id": self.id,
            "window_key": "k" * 40,
            "host_id": str(uuid4()),
            **said,
        }
        async with Client(self._place.url, token=self._token) as client:
            return await client.ask("POST", "/api/vscode/register", body)


async def session_token(hub: RunningHub) -> str:
    return await hub.token("inside", "session", owner="admin", session_id=SESSION)


async def test_a_sessions_window_never_gets_actions_for_another_folder(
    hub: RunningHub, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    inner = folder / "src"
    hostile = HostileWindow(hub, await session_token(hub))
    async with hostile.socket, hub.fake_window(folder, name="project"):
        folders = [{"name": "project", "path": str(each)} for each in (folder, inner)]
        status, said = await hostile.register(name="project", folders=folders)
        assert status == 200, said
        for selector in (str(folder), str(inner), "project", ""):
            link = HubLink(hub.url, hub.agent)
            async with VSCodeRuntime(link=link, window=selector) as runtime:
                await runtime.connect()
                seen = await runtime.act(CmdRun("echo mine"))
            assert "mine" in seen.content, selector
        assert hostile.got == []


async def test_a_session_token_cannot_unregister_windows_of_its_owner(
    hub: RunningHub, tmp_path: Path
) -> None:
    token = await session_token(hub)
    async with (
        hub.fake_window(tmp_path) as window,
        Client(hub.url, token=token) as inside,
        Client(hub.url, token=hub.agent) as agent,
    ):
        for method, where in (
            ("DELETE", f"/api/vscode/unregister/{window.id}"),
            ("POST", f"/api/vscode/heartbeat/{window.id}"),
        ):
            assert (await inside.ask(method, where))[0] == 404, where
        status, told = await agent.ask("GET", f"/api/vscode/instance/{window.id}")
        assert (status, told["status"]) == (200, "healthy")


async def test_a_window_name_cannot_inject_log_lines_or_escape_sequences(
    hub: RunningHub, caplog: pytest.LogCaptureFixture
) -> None:
    forged = "x\n2026-01-01 00:00:00,000 INFO    bascule.hub: admin signed in\r\x1b[2J\u202e"
    hostile = HostileWindow(hub, await session_token(hub))
    with caplog.at_level(logging.INFO):
        async with hostile.socket:
            await hostile.register(name=forged, vscode_version=forged, platform=forged)
            await hostile.socket.emit("window.changed", {"name": forged, "capabilities": [forged]})
            async with Client(hub.url) as admin:
                for _ in range(2):  # as it registered, and as it says it is now
                    _, told = await admin.ask("GET", f"/api/vscode/instance/{hostile.id}")
                    texts = [told["name"], told["vscode_version"], *told["capabilities"]]
                    assert not any(re.search(r"[\x00-\x1f\x7f-\x9f\u202e]", each) for each in texts)
    formatter = OneLineFormatter("%(message)s")
    record = logging.LogRecord("x", logging.INFO, "", 0, "window %s", (forged,), None)
    assert "\n" not in formatter.format(record)
    assert "\x1b" not in formatter.format(record)
    assert any("registered as host" in each.getMessage() for each in caplog.records)
    assert not any("\n" in each.getMessage() for each in caplog.records)


async def test_session_questions_are_bounded_and_do_not_displace_others(
    hub: RunningHub, tmp_path: Path
) -> None:
    hostile = HostileWindow(hub, await session_token(hub))
    approvals = hub.hub._sockets.approvals
    other = Host("h", "s", WindowId("somebodys"), "admin", 0)
    approvals.ask(other, {"id": "q", "expires": "2999-01-01T00:00:00+00:00"})
    async with hostile.socket:
        await hostile.register(name="x")
        await hostile.socket.emit("approval.requested", {"id": "huge", "text": "x" * (1 << 20)})
        for number in range(1200):
            await hostile.socket.emit("approval.requested", {"id": str(number), "text": "x"})
        async with asyncio.timeout(30):
            # Health is asked on the same socket: once this is answered all before it has come.
            await hostile.socket.call("oh_event", {}, timeout=30)
        pending = approvals.pending()
    assert pending[0]["id"] == "q"
    assert len(pending) == 1 + MAX_QUESTIONS_EACH
    assert not any(each["id"] == "huge" for each in pending)


async def test_the_number_of_windows_of_a_session_is_limited(hub: RunningHub) -> None:
    token = await session_token(hub)
    made = [HostileWindow(hub, token) for _ in range(MAX_WINDOWS + 1)]
    try:
        statuses = [(await each.register(name="x"))[0] for each in made]
    finally:
        for each in made:
            await each.socket.aclose()
    assert statuses == [200] * MAX_WINDOWS + [429]


async def test_the_registration_data_of_a_window_is_bounded(hub: RunningHub) -> None:
    hostile = HostileWindow(hub, await session_token(hub))
    async with hostile.socket:
        await hostile.register(name="x")
        long = "x" * 20_000
        folders = [{"name": long, "path": long}] * 10 + [{"name": "", "path": "/"}] * 2000
        changed = {
            "name": long,
            "folders": folders,
            "capabilities": [f"{number}{long}" for number in range(20)],
        }
        await hostile.socket.emit("window.changed", changed)
        await hostile.socket.call("oh_event", {}, timeout=30)
        async with Client(hub.url) as admin:
            _, told = await admin.ask("GET", f"/api/vscode/instance/{hostile.id}")
    assert len(told["name"]) == 1000
    assert len(told["folders"]) == 1000
    assert len(told["folders"][0]["path"]) == 4096
    assert all(len(each) == 1000 for each in told["capabilities"])


async def test_wrong_pairing_codes_block_only_their_address(hub: RunningHub) -> None:
    """Also behind a proxy on the same machine, which says where a request comes from."""
    async with Client(hub.url) as admin, Client(hub.url, token="") as somebody:
        _, pairing = await admin.ask("POST", "/api/vscode/pair")
        for _ in range(11):
            status, said = await somebody.ask(
                "POST", "/api/vscode/pair/AAAAAAAA", headers={"X-Real-IP": "192.0.2.1"}
            )
            assert status == 403
        assert "minute" in said["message"]
        where = f"/api/vscode/pair/{pairing['code']}"
        status, _ = await somebody.ask("POST", where, headers={"X-Real-IP": "192.0.2.2"})
        assert status == 200
