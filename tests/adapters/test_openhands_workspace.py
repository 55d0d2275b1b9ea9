"""A session as OpenHands' clients ask for it, without them; with them in openhands_v1/."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from bascule.adapters.openhands_workspace import WorkspaceMount
from tests.hub.sessions.serving import SessionHub, SessionsClient, kill_server, open_session_hub

pytestmark = pytest.mark.slow

FILE = {"files": {"file": b"text"}}


@pytest.fixture
async def hub() -> AsyncIterator[SessionHub]:
    async with open_session_hub(mounts=(WorkspaceMount,)) as made:
        yield made


async def session_of(hub: SessionHub) -> str:
    async with SessionsClient(hub.url) as admin:
        return await admin.ready()


def client(hub: SessionHub, session: str, token: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=f"{hub.url}/openhands/v1/{session}",
        headers={"X-Session-API-Key": token} if token else {},
        timeout=60,
    )


async def test_a_large_file_is_uploaded_read_by_a_command_and_downloaded(hub: SessionHub) -> None:
    session = await session_of(hub)
    path = f"{hub.directory}/sessions/{session}/workspace/deep/file"
    content = bytes(range(256)) * 20_000
    async with client(hub, session, hub.agent) as http:
        sent = await http.post("/api/file/upload", params={"path": path}, files={"file": content})
        back = await http.get("/api/file/download", params={"path": path})
        counted = await http.post(
            "/api/bash/execute_bash_command", json={"command": "wc -c < deep/file; exit 3"}
        )
        events = (await http.get("/api/bash/bash_events/search", params={"limit": 1})).json()
        rest = (
            await http.get(
                "/api/bash/bash_events/search", params={"page_id": events["next_page_id"]}
            )
        ).json()
        known = await http.get(f"/api/bash/bash_events/{rest['items'][0]['id']}")
        cleared = await http.delete("/api/bash/bash_events")
        gone = await http.get(f"/api/bash/bash_events/{rest['items'][0]['id']}")
        vscode = (await http.get("/api/vscode/url")).json()["url"]

    assert sent.json() == {"success": True, "file_size": len(content)}
    assert back.content == content
    assert (counted.json()["stdout"], counted.json()["exit_code"]) == (f"{len(content)}\n", 3)
    assert [each["kind"] for each in events["items"]] == ["BashCommand"]
    assert [each["kind"] for each in rest["items"]] == ["BashOutput"]
    assert known.json() == rest["items"][0]
    assert cleared.json() == {"cleared_count": 2}
    assert gone.status_code == 404
    assert vscode == f"{hub.url}/vscode/{session}/"


async def test_the_hub_stops_while_a_workspace_command_runs(hub: SessionHub) -> None:
    async with client(hub, await session_of(hub), hub.agent) as http:
        started = await http.post(
            "/api/bash/start_bash_command", json={"command": "sleep 600", "timeout": 600}
        )
        assert started.json()["kind"] == "BashCommand"

    await hub.stop()


async def test_invalid_workspace_requests_return_clear_errors(hub: SessionHub) -> None:
    session = await session_of(hub)
    stranger = await hub.token("stranger", "agent", owner="somebody else")
    nowhere = f"{hub.directory}/nowhere"
    asked: list[tuple[str, str, str, dict[str, Any], int, str]] = [
        ("", "GET", "/server_info", {}, 401, "access.denied"),
        ("wrong", "GET", "/server_info", {}, 401, "access.denied"),
        (hub.window, "GET", "/server_info", {}, 404, "session.not_found"),
        (stranger, "GET", "/server_info", {}, 404, "session.not_found"),
        (hub.agent, "POST", "/api/bash/start_bash_command", {"json": {}}, 422, "request.invalid"),
        (hub.agent, "POST", "/api/bash/bash_commands/x/stop", {}, 404, "request.invalid"),
        (hub.agent, "POST", "/api/file/upload?path=/x", {"json": {}}, 415, "request.invalid"),
        (
            hub.agent,
            "POST",
            "/api/file/upload?path=/x",
            {"files": {"another": b""}},
            400,
            "request.invalid",
        ),
        (hub.agent, "GET", "/api/file/download?path=x", {}, 400, "path.invalid"),
        (hub.agent, "GET", f"/api/file/download?path={nowhere}", {}, 404, "path.not_found"),
        (hub.agent, "GET", "/api/file/download?path=/a%00b", {}, 400, "path.invalid"),
        (hub.agent, "GET", "/api/file/download?path=/a/..", {}, 400, "path.invalid"),
        *(
            (hub.agent, "POST", f"/api/file/upload?path={path}", FILE, 400, "path.invalid")
            for path in ("/a%00b", "/a/..", "/", f"/{'x' * 256}")
        ),
        (hub.agent, "GET", "/api/nothing", {}, 404, "request.invalid"),
        (hub.agent, "GET", "/api/bash/bash_events/search?limit=x", {}, 400, "request.invalid"),
        (hub.agent, "GET", "/api/git/changes?path=/a%00b", {}, 400, "shell.command_invalid"),
        (hub.agent, "GET", "/api/git/diff", {}, 400, "request.invalid"),
        (hub.agent, "GET", f"/api/git/diff?path={nowhere}", {}, 400, "request.invalid"),
    ]
    for token, method, where, body, status, code in asked:
        async with client(hub, session, token) as http:
            reply = await http.request(method, where, **body)
            assert (reply.status_code, reply.json()["code"]) == (status, code), where
    for elsewhere in ("..", "%2e%2e", "..%2f..%2fetc", "%00", "0" * 25):
        async with client(hub, elsewhere, hub.agent) as http:
            assert (await http.get("/server_info")).status_code in (401, 404), elsewhere
    async with client(hub, session, "") as http:
        assert (await http.get("/health")).json() == {"status": "ok"}
    async with client(hub, "another", "") as http:
        assert (await http.get("/health")).status_code == 503


async def test_killing_a_session_ends_its_running_command(hub: SessionHub) -> None:
    session = await session_of(hub)
    async with SessionsClient(hub.url) as admin, client(hub, session, hub.agent) as http:
        running = asyncio.create_task(
            http.post("/api/bash/execute_bash_command", json={"command": "touch begun; sleep 600"})
        )
        begun = hub.directory / "sessions" / session / "workspace" / "begun"
        while not await asyncio.to_thread(begun.exists):
            await asyncio.sleep(0.01)  # nobody tells of it; bounded by the test's own timeout
        kill_server(hub.directory / "run" / session)
        ended = await running
        await admin.reaches(session, "failed")
        refused = await http.post("/api/bash/execute_bash_command", json={"command": "true"})
        file = await http.get("/api/file/download", params={"path": str(begun)})
        await admin.must("POST", f"/api/sessions/{session}/resume")
        await admin.reaches(session, "ready")
        again = await http.post("/api/bash/execute_bash_command", json={"command": "ls"})

    assert (ended.status_code, ended.json()["exit_code"]) == (200, -1)
    assert ended.json()["stderr"].startswith("Error executing command: ")
    assert refused.json()["exit_code"] == -1
    assert "resume it" in refused.json()["stderr"]
    assert (file.status_code, file.json()["code"]) == (409, "session.state")
    assert (again.json()["stdout"], again.json()["exit_code"]) == ("begun\n", 0)


async def test_commands_of_a_session_use_little_hub_memory(hub: SessionHub) -> None:
    """The session's own token can start them, so whatever runs in it can."""
    session = await session_of(hub)
    token = await hub.token("inside", "session", owner="admin", session_id=session)
    start, events = "/api/bash/start_bash_command", "/api/bash/bash_events"
    async with client(hub, session, token) as http:
        huge = await http.post(start, json={"command": ":" + " " * (1 << 20)})
        assert huge.status_code == 422
        for _ in range(20):
            text = ":" + " " * 1_000_000
            ran = await http.post("/api/bash/execute_bash_command", json={"command": text})
            assert ran.json()["exit_code"] == 0, ran.text
        found = (await http.get(f"{events}/search")).json()["items"]
        kept = [each["command"] for each in found if each["kind"] == "BashCommand"]
        assert 10 < len(kept) < 17

        begun = [await http.post(start, json={"command": "sleep 600"}) for _ in range(33)]
        assert [each.status_code for each in begun] == [200] * 32 + [429]
        assert "the maximum" in begun[-1].json()["message"]
        await http.post(f"/api/bash/bash_commands/{begun[0].json()['id']}/stop")
        query = {"command_id__eq": begun[0].json()["id"]}
        while not (await http.get(f"{events}/search", params=query)).json()["items"]:
            await asyncio.sleep(0.05)  # there is no event for it
        assert (await http.post(start, json={"command": "true"})).status_code == 200
    await hub.stop()
