"""Windows come, are known, and leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from bascule.core.actions import CmdRun, FileRead
from bascule.core.errors import (
    AccessDenied,
    InvalidNonce,
    NoSuchWindow,
    WindowGone,
    WindowTaken,
    WindowUnhealthy,
)
from bascule.core.observations import CmdOutput
from bascule.core.windows import WindowId
from bascule.hub import HubSettings, Identity
from bascule.link.hub import HubLink
from bascule.link.socketio import SocketClient
from bascule.testing.window import FakeWindow, Journal
from bascule.wire import encode_action, error_from_wire

from .serving import Client, RunningHub

ADMIN = Identity(name="admin", owner="admin", scope="admin")


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    async with RunningHub(tmp_path / "state", heartbeat=0.05, probe_timeout=1.0) as hub:
        yield hub


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    path.mkdir()
    return path


async def until(hub: RunningHub, window: FakeWindow, status: str) -> None:
    """Wait for the hub to say so; each change of a status wakes this."""
    while True:
        change = hub.hub._sockets.next_change()
        try:
            now = hub.hub._registry.window(WindowId(window.id)).status
        except NoSuchWindow:
            now = "gone"
        if now == status:
            return
        await change


async def register(hub: RunningHub, **changed: Any) -> tuple[int, Any]:
    """Register as a window of our own making would."""
    nonces: asyncio.Queue[str] = asyncio.Queue()

    async def greeted(hello: Any) -> None:
        nonces.put_nowait(hello["nonce"])

    token = changed.pop("token", hub.window)
    socket = SocketClient(
        hub.url, token, namespace="/window", client="me", handlers={}, on_connected=greeted
    )
    async with socket, Client(hub.url, token=changed.pop("by", token)) as client:
        await socket.connect()
        body = {
            "nonce": nonces.get_nowait(),
            "window_id": str(uuid4()),
            "window_key": "k" * 43,
            "host_id": str(uuid4()),
            "name": "made up",
            **changed,
        }
        return await client.ask("POST", "/api/vscode/register", body)


# Coming -----------------------------------------------------------------------------------


async def test_a_registered_window_is_listed_with_its_details(
    hub: RunningHub, workspace: Path
) -> None:
    async with (
        hub.fake_window(workspace, name="project") as window,
        Client(hub.url, token=hub.agent) as agent,
    ):
        status, (listed,) = await agent.ask("GET", "/api/vscode/instances")
        assert status == 200
        assert listed["connection_id"] == window.id
        assert listed["status"] == "healthy"
        assert listed["folders"] == [{"name": "project", "path": str(workspace)}]
        assert listed["workspace_path"] == str(workspace)
        assert "run" in listed["capabilities"]
        _, again = await agent.ask("GET", f"/api/vscode/instance/{window.id}")
        assert again == {**listed, "last_heartbeat": again["last_heartbeat"]}
        stats = (await agent.ask("GET", "/api/vscode/registry/stats"))[1]
        assert (stats["total_instances"], stats["status_counts"]) == (1, {"healthy": 1})
        assert stats["recent_activity"] == 1


async def test_an_unknown_window_is_a_404(hub: RunningHub) -> None:
    async with Client(hub.url) as client:
        status, said = await client.ask("GET", "/api/vscode/instance/none")
        assert (status, said["code"]) == (404, "window.not_found")


async def test_earlier_names_for_folders_are_understood(hub: RunningHub) -> None:
    status, said = await register(hub, name="", workspace_name="old", workspace_path="/old")
    assert status == 200, said
    (window,) = await hub.hub.windows(ADMIN).windows()
    assert (window.name, window.folders[0].path) == ("old", "/old")


async def test_an_unknown_nonce_is_rejected(hub: RunningHub) -> None:
    status, said = await register(hub, nonce="made-up")
    assert status == 400
    assert isinstance(error_from_wire(said), InvalidNonce)


async def test_a_nonce_is_for_the_token_of_its_socket(hub: RunningHub) -> None:
    other = await hub.token("another", "window")
    status, said = await register(hub, by=other)
    assert (status, said["code"]) == (400, "nonce.invalid")


async def test_a_window_id_cannot_be_taken_over(hub: RunningHub, workspace: Path) -> None:
    async with hub.fake_window(workspace) as window:
        status, said = await register(hub, window_id=window.id)
        assert status == 409
        assert isinstance(error_from_wire(said), WindowTaken)
        (listed,) = await hub.hub.windows(ADMIN).windows()
        assert listed.hosts == 1
    await hub.stop()
    await hub.start()
    status, said = await register(hub, window_id=window.id)
    assert (status, said["code"]) == (409, "window.taken")


async def test_another_owner_cannot_take_over_a_window_id_with_its_key(
    hub: RunningHub, workspace: Path
) -> None:
    theirs = await hub.token("theirs", "window", owner="bob")
    async with hub.fake_window(workspace) as window:
        key = window.journal.window_key
        status, _ = await register(hub, window_id=window.id, window_key=key, token=theirs)
        assert status == 409


async def test_owners_do_not_see_each_others_windows(hub: RunningHub, workspace: Path) -> None:
    bob = await hub.token("bobs agent", "agent", owner="bob")
    async with (
        hub.fake_window(workspace) as window,
        Client(hub.url, token=bob) as client,
        HubLink(hub.url, bob) as link,
    ):
        assert await client.ask("GET", "/api/vscode/instances") == (200, [])
        assert (await client.ask("GET", f"/api/vscode/instance/{window.id}"))[0] == 404
        await link.connect()
        with pytest.raises(NoSuchWindow):
            await link.act(WindowId(window.id), CmdRun("true"))
        assert window.done == []


async def test_pairing_gives_a_window_a_token(hub: RunningHub, workspace: Path) -> None:
    async with Client(hub.url) as admin, Client(hub.url, token="") as nobody:
        _, pairing = await admin.ask("POST", "/api/vscode/pair")
        assert pairing["code"] in pairing["link"]
        status, paired = await nobody.ask("POST", f"/api/vscode/pair/{pairing['code']}")
        assert (status, paired["hub"]) == (200, hub.url)
        status, said = await nobody.ask("POST", f"/api/vscode/pair/{pairing['code']}")
        assert (status, said["code"]) == (403, "pair.invalid")
    async with hub.fake_window(workspace, token=paired["token"]) as window:
        assert window.is_connected


async def test_guessing_pairing_codes_is_rate_limited(hub: RunningHub) -> None:
    async with Client(hub.url) as admin, Client(hub.url, token="") as nobody:
        _, pairing = await admin.ask("POST", "/api/vscode/pair")
        for _ in range(10):
            assert (await nobody.ask("POST", "/api/vscode/pair/AAAAAAAA"))[0] == 403
        status, said = await nobody.ask("POST", f"/api/vscode/pair/{pairing['code']}")
        assert status == 403
        assert "minute" in said["message"]


# Living -----------------------------------------------------------------------------------


async def test_a_window_whose_editor_is_dead_is_unhealthy_and_its_actions_end(
    hub: RunningHub, workspace: Path
) -> None:
    async with hub.fake_window(workspace) as window:
        link = hub.hub.windows(ADMIN)
        running = asyncio.create_task(link.act(WindowId(window.id), CmdRun("sleep 60")))
        window.editor_is_dead = True
        with pytest.raises(WindowUnhealthy):
            await running
        assert (await link.windows())[0].status == "unhealthy"
        with pytest.raises(WindowUnhealthy):
            await link.act(WindowId(window.id), FileRead("x"))

        window.editor_is_dead = False
        await asyncio.wait_for(link.wait_until_healthy(WindowId(window.id)), 10)
        assert (await link.windows())[0].status == "healthy"


def test_by_default_a_dead_editor_is_noticed_and_a_slow_one_has_time() -> None:
    settings = HubSettings(admin_token="a-token-for-this-test")
    assert settings.probe_timeout >= 10
    assert settings.heartbeat + 2 * settings.probe_timeout <= 33


async def test_a_dead_host_is_replaced_by_a_live_one(hub: RunningHub, workspace: Path) -> None:
    journal = Journal()
    async with (
        hub.fake_window(workspace, journal=journal) as living,
        hub.fake_window(workspace, journal=journal) as zombie,
    ):
        link = hub.hub.windows(ADMIN)
        (window,) = await link.windows()
        assert window.hosts == 2
        running = asyncio.create_task(link.act(window.id, CmdRun("echo $$ > pid; sleep 60")))
        zombie.editor_is_dead = True
        with pytest.raises(WindowGone):
            await running
        assert (await link.windows())[0].status == "healthy"
        await link.act(window.id, CmdRun("true"))
        assert (len(zombie.done), len(living.done)) == (1, 1)
        await asyncio.wait_for(zombie.superseded.wait(), 10)

        zombie.editor_is_dead = False
        await asyncio.wait_for(zombie.wait_connected(), 10)
        await link.act(window.id, CmdRun("true"))
        assert (len(zombie.done), len(living.done)) == (2, 1)


async def test_a_disconnected_window_is_listed_as_gone_and_later_removed(workspace: Path) -> None:
    async with RunningHub(forget_after=0.2) as hub:
        async with hub.fake_window(workspace) as window:
            pass
        link = hub.hub.windows(ADMIN)
        await until(hub, window, "gone")
        with pytest.raises((WindowGone, NoSuchWindow)):
            await link.act(WindowId(window.id), CmdRun("true"))
        while await link.windows():
            await hub.hub._sockets.next_change()


async def test_unregistering_ends_a_window(hub: RunningHub, workspace: Path) -> None:
    async with (
        hub.fake_window(workspace) as window,
        Client(hub.url, token=hub.window) as client,
    ):
        assert (await client.ask("POST", f"/api/vscode/heartbeat/{window.id}"))[0] == 200
        assert (await client.ask("DELETE", f"/api/vscode/unregister/{window.id}"))[0] == 200
        status, said = await client.ask("DELETE", f"/api/vscode/unregister/{window.id}")
        assert (status, said["code"]) == (404, "window.not_found")
        with pytest.raises(AccessDenied, match="ended this connection"):
            await window.wait_ended()


# Acting -----------------------------------------------------------------------------------


async def test_an_action_over_http_is_answered_with_its_observation(
    hub: RunningHub, workspace: Path
) -> None:
    async with (
        hub.fake_window(workspace) as window,
        Client(hub.url, token=hub.agent) as agent,
    ):
        path = f"/api/vscode/instance/{window.id}/actions"
        action = encode_action(CmdRun("echo hi"))
        status, seen = await agent.ask("POST", path, action)
        assert (status, seen["content"], seen["cause"]) == (200, "hi\n", action["id"])
        assert (await agent.ask("POST", path, action))[1]["id"] == seen["id"]
        assert window.done == [action["id"]]
        assert window.agents == {"agent"}
        status, said = await agent.ask("POST", path, {"action": "read", "args": {}})
        assert (status, said["code"]) == (422, "action.invalid")


async def test_an_action_id_does_not_give_access_to_another_clients_observation(
    hub: RunningHub, workspace: Path
) -> None:
    thief = await hub.token("thief", "agent")
    async with (
        hub.fake_window(workspace) as window,
        HubLink(hub.url, hub.agent) as link,
        HubLink(hub.url, thief) as other,
    ):
        await link.connect()
        await other.connect()
        action, begun = CmdRun("echo up; read word; echo got $word"), asyncio.Event()
        running = asyncio.create_task(
            link.act(WindowId(window.id), action, on_progress=lambda _: begun.set())
        )
        await begun.wait()
        with pytest.raises(Exception, match="another caller"):
            await other.act(WindowId(window.id), action)
        await link.act(WindowId(window.id), CmdRun("this", is_input=True))
        assert "got this" in (await running).content


async def test_window_actions_are_counted_in_metrics(hub: RunningHub, workspace: Path) -> None:
    async with (
        hub.fake_window(workspace) as window,
        Client(hub.url, token=hub.agent) as agent,
    ):
        await hub.hub.windows(ADMIN).act(WindowId(window.id), CmdRun("true"))
        _, text = await agent.ask("GET", "/metrics")
        assert b'bascule_hub_actions_total{kind="run",outcome="run"} 1.0' in text
        assert b'bascule_hub_windows{status="healthy"} 1.0' in text


async def test_an_agent_stays_with_the_host_that_runs_its_action(
    hub: RunningHub, workspace: Path
) -> None:
    link, other = hub.hub.windows(ADMIN), hub.hub.windows(replace(ADMIN, name="other"))
    async with hub.fake_window(workspace) as first:
        window_id = WindowId(first.id)
        asked = link.act(window_id, CmdRun("read word; echo got $word", blocking=True))
        running = asyncio.create_task(asked)
        while not first.done:  # the hub tells nobody that it has begun
            await asyncio.sleep(0)
        async with hub.fake_window(workspace, journal=first.journal) as second:
            await other.act(window_id, FileRead("."))
            await link.act(window_id, CmdRun("it", is_input=True))
            seen = await running
            await link.act(window_id, FileRead("."))

    assert isinstance(seen, CmdOutput)
    assert seen.content == "got it\n"
    assert (len(first.done), len(second.done)) == (2, 2)


async def test_a_sessions_own_window_is_listed_with_it(hub: RunningHub, workspace: Path) -> None:
    token = await hub.token("inside", "session", session_id="abcdefgh12345678")
    async with (
        hub.fake_window(workspace, token=token) as own,
        hub.fake_window(workspace) as users,
        HubLink(hub.url, hub.agent) as link,
    ):
        listed = {window.id: window.session_id for window in await link.windows()}

    assert listed == {own.id: "abcdefgh12345678", users.id: ""}
