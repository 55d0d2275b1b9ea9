"""/mcp on a hub, with the official client over streamable HTTP."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from bascule.adapters.mcp.mount import McpMount
from bascule.hub import Hub, HubSettings
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings
from bascule.testing.window import FakeWindow
from tests.hub.serving import ADMIN, RunningHub
from tests.hub.sessions.serving import SessionHub, SessionsClient, kill_server, open_session_hub

from .clients import call, code_of, names_of, over_http, over_stdio, text_of

pytestmark = pytest.mark.slow

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
CLIENT = {"name": "a client", "version": "1"}
KINDS = {"Accept": "application/json, text/event-stream"}


@pytest.fixture
async def place() -> AsyncIterator[RunningHub]:
    async with RunningHub(mounts=(McpMount,)) as here:
        yield here


async def test_a_client_works_in_the_only_window(place: RunningHub, tmp_path: Path) -> None:
    async with place.fake_window(tmp_path), over_http(f"{place.url}/mcp", place.agent) as client:
        names = names_of(await client.list_tools())
        assert {"run_command", "list_windows"} <= names
        assert not names & {"list_sessions", "use_session"}  # this hub has none
        seen = await call(client, "run_command", command="pwd")

    assert text_of(seen).startswith(f"{tmp_path}\n")


async def test_stopping_the_hub_does_not_wait_for_a_clients_window(
    place: RunningHub, tmp_path: Path
) -> None:
    async with place.fake_window(tmp_path) as window:
        async with over_http(f"{place.url}/mcp", place.agent) as client:
            await call(client, "run_command", command="pwd")
            await window.aclose()
        async with asyncio.timeout(30):  # a runtime waits 60 s for a window to return
            await place.stop()


async def test_a_client_selects_one_of_several_windows(place: RunningHub, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    async with (
        place.fake_window(one, name="one"),
        place.fake_window(two, name="two"),
        over_http(f"{place.url}/mcp", place.agent) as client,
        over_http(f"{place.url}/mcp?window=one", place.agent) as decided,
    ):
        named = await call(decided, "run_command", command="pwd")
        torn = await call(client, "run_command", command="pwd")
        await call(client, "use_window", window="two")
        there = await call(client, "run_command", command="pwd")
        lost = await call(client, "use_window", window="three")
        still = await call(client, "run_command", command="pwd")

    assert text_of(named).startswith(f"{one}\n")
    assert code_of(torn) == "window.ambiguous"
    assert text_of(there).startswith(f"{two}\n")
    assert code_of(lost) == "window.none"
    assert text_of(still).startswith(f"{two}\n")


async def test_a_window_learns_that_a_client_left_and_the_command_continues(
    place: RunningHub, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "gate")
    abandoned: asyncio.Queue[Any] = asyncio.Queue()

    async def left(data: Any) -> None:
        abandoned.put_nowait(data)

    settings = SandboxSettings(shells=ShellSettings(working_dir=tmp_path))
    async with FakeWindow(place.url, place.window, settings) as window:
        window._socket._handlers = {**window._socket._handlers, "askers.left": left}
        await window.connect()
        place.hub._sockets._abandoned._grace = 0.01
        writer = await _run_command(place, "cat gate > made")
        gate = await asyncio.to_thread(os.open, tmp_path / "gate", os.O_WRONLY)  # once it is read
        writer.close()
        async with asyncio.timeout(30):
            assert len((await abandoned.get())["ids"]) == 1
        os.write(gate, b"done\n")
        os.close(gate)
        async with over_http(f"{place.url}/mcp", place.agent) as later:
            wait = "until [ -s made ]; do sleep 0.05; done; cat made"
            assert text_of(await call(later, "run_command", command=wait)).startswith("done\n")


async def _run_command(place: RunningHub, command: str) -> asyncio.StreamWriter:
    """Call `run_command` in a connection of its own, and do not wait for the answer."""
    url, headers = f"{place.url}/mcp", {"Authorization": f"Bearer {place.agent}", **KINDS}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT}
    async with httpx.AsyncClient(headers=headers, timeout=30) as http:
        greeted = await http.post(url, json=_message("initialize", hello, id=1))
        headers["Mcp-Session-Id"] = greeted.headers["Mcp-Session-Id"]
        await http.post(url, json=_message("notifications/initialized", {}), headers=headers)
    call = {"name": "run_command", "arguments": {"command": command}}
    body = json.dumps(_message("tools/call", call, id=2)).encode()
    headers |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    _, writer = await asyncio.open_connection("127.0.0.1", place.port)
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    writer.write(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n")
    writer.write("".join(lines).encode() + b"\r\n" + body)
    await writer.drain()
    return writer


def _message(method: str, params: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params, **fields}


async def test_without_a_window_tool_errors_say_how_to_open_one(place: RunningHub) -> None:
    async with over_http(f"{place.url}/mcp", place.agent) as client:
        assert "run_command" in names_of(await client.list_tools())
        assert code_of(await call(client, "run_command", command="pwd")) == "window.none"


@asynccontextmanager
async def hub_with_a_session() -> AsyncIterator[tuple[SessionHub, SessionsClient, str]]:
    async with open_session_hub(mounts=(McpMount,)) as hub, SessionsClient(hub.url) as admin:
        yield hub, admin, await admin.ready({"name": "first", "secrets": {"KEY": "s3cr3t-value"}})


async def test_tools_list_and_select_sessions_and_start_a_stopped_one() -> None:
    async with hub_with_a_session() as (hub, admin, session):
        async with over_http(f"{hub.url}/mcp", hub.agent) as client:
            listed = await call(client, "list_sessions")
            unknown = await call(client, "use_session", session="another")
            await admin.must("POST", f"/api/sessions/{session}/stop")
            await call(client, "use_session", session="first")
            seen = await call(client, "run_command", command="pwd")
        async with over_stdio(
            "--session", "first", BASCULE_HUB=hub.url, BASCULE_TOKEN=hub.agent
        ) as client:
            from_afar = await call(client, "run_command", command="pwd")
        audit = await admin.must("GET", f"/api/audit?session_id={session}")

    workspace = f"{hub.directory}/sessions/{session}/workspace"
    assert text_of(listed) == f"{session}  first  ready"
    assert code_of(unknown) == "session.not_found"
    assert text_of(seen).startswith(f"{workspace}\n")
    assert text_of(from_afar).startswith(f"{workspace}\n")
    assert ("agent", "act") in {(row["who"], row["verb"]) for row in audit}


async def test_each_client_of_a_session_has_its_own_shell() -> None:
    async with hub_with_a_session() as (hub, _, session):
        where = f"{hub.url}/mcp/{session}"
        async with over_http(where, hub.agent) as one, over_http(where, hub.agent) as two:
            job = "cd /; word=one; echo $$ >~/shell; sleep 60 & echo $! >~/job"
            await call(one, "run_command", command=job)
            other = await call(two, "run_command", command="pwd; echo word is $word.")
            own = await call(one, "run_command", command="pwd; echo word is $word.")
            await call(two, "run_command", command="cd /; shared=yes", shell="ours")
            named = await call(one, "run_command", command="echo shared is $shared", shell="ours")
        async with over_http(where, hub.agent) as later:
            gone = "while kill -0 $(cat ~/shell) 2>&-; do sleep 0.1; done; echo shell is gone"
            left = await call(later, "run_command", command=f"kill $(cat ~/job) && {gone}")

    assert text_of(other).startswith(f"{hub.directory}/sessions/{session}/workspace\nword is .\n")
    assert text_of(own).startswith("/\nword is one.\n")
    assert text_of(named).startswith("shared is yes\n")
    assert text_of(left).startswith("shell is gone\n")


async def test_a_client_that_leaves_leaves_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async with (
        hub_with_a_session() as (hub, _, session),
        over_http(f"{hub.url}/mcp/{session}", hub.agent) as client,
    ):
        await call(client, "run_command", command="true")

    assert not [each for each in caplog.records if each.exc_info], caplog.text


async def test_the_mcp_path_of_a_session_reaches_only_that_session() -> None:
    async with hub_with_a_session() as (hub, _, session):
        token = await hub.token("of it", "session", session_id=session)
        told: list[str] = []

        async def listen(progress: float, total: float | None, message: str | None) -> None:
            told.append(message or "")

        async with over_http(f"{hub.url}/mcp/{session}", token) as client:
            names = names_of(await client.list_tools())
            seen = await client.call_tool(
                "run_command", {"command": "echo one"}, progress_callback=listen
            )
        stranger = await hub.token("stranger", "agent", owner="somebody else")
        statuses = [
            await status_of(f"{hub.url}/mcp/{where}", bearer)
            for where, bearer in (
                (session, hub.window),
                (session, stranger),
                ("s9", hub.agent),
                (f"{session}/x", hub.agent),
                ("", token),
            )
        ]

    assert "run_command" in names
    assert not names & {"list_windows", "use_window", "list_sessions", "use_session"}
    assert text_of(seen).startswith("one\n")
    assert "".join(told).startswith("one")
    assert statuses == [
        (403, "access.denied"),
        (404, "session.not_found"),
        (404, "session.not_found"),
        (404, "session.not_found"),
        (403, "access.denied"),
    ]


async def test_a_tool_reports_a_killed_session_and_the_session_stays_usable() -> None:
    async with (
        hub_with_a_session() as (hub, admin, session),
        over_http(f"{hub.url}/mcp", hub.agent) as client,
        over_http(f"{hub.url}/mcp/{session}", hub.agent) as other,
    ):
        await call(client, "use_session", session=session)
        running = asyncio.create_task(
            call(client, "run_command", command="touch begun; sleep 600", wait=600)
        )
        begun = hub.directory / "sessions" / session / "workspace" / "begun"
        while not await asyncio.to_thread(begun.exists):
            await asyncio.sleep(0.01)  # nobody tells of it; bounded by the test's own timeout
        beside = await call(other, "list_directory", path=str(begun.parent))
        kill_server(hub.directory / "run" / session)
        died = await running
        await admin.reaches(session, "failed")
        refused = await call(other, "run_command", command="true")
        await call(client, "use_session", session=session)
        again = await call(client, "run_command", command="ls")

    assert "begun" in text_of(beside)  # two clients do not wait for each other
    assert code_of(died) in ("sandbox.died", "sandbox.unreachable", "outcome.unknown")
    assert code_of(refused) == "session.state"
    assert text_of(again).startswith("begun\n")


async def status_of(url: str, token: str) -> tuple[int, str]:
    headers = {**KINDS, "Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(headers=headers) as http:
        reply = await http.post(url.rstrip("/"), json=PING)
    return reply.status_code, reply.json()["code"]


@pytest.mark.parametrize(
    ("path", "scope", "status", "code"),
    [
        ("/mcp", "", 401, "access.denied"),
        ("/mcp", "wrong", 401, "access.denied"),
        ("/mcp", "window", 403, "access.denied"),
        ("/mcp/s9", "agent", 404, "session.not_found"),
    ],
)
async def test_who_may_not_is_told(
    place: RunningHub, path: str, scope: str, status: int, code: str
) -> None:
    tokens = {"agent": place.agent, "window": place.window, "wrong": "wrong", "": ""}
    headers = {"Authorization": f"Bearer {tokens[scope]}"} if scope else {}
    async with httpx.AsyncClient(headers={**KINDS, **headers}) as http:
        reply = await http.post(place.url + path, json=PING)

    assert (reply.status_code, reply.json()["code"]) == (status, code)


async def test_an_mcp_session_id_is_rejected_with_another_token(place: RunningHub) -> None:
    async with over_http(f"{place.url}/mcp", place.agent), httpx.AsyncClient(headers=KINDS) as http:
        hello = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        }
        mine = {"Authorization": f"Bearer {place.agent}"}
        reply = await http.post(f"{place.url}/mcp", json=hello, headers=mine)
        number = {"Mcp-Session-Id": reply.headers["mcp-session-id"]}
        theirs = {"Authorization": f"Bearer {ADMIN}"}
        stolen = await http.post(f"{place.url}/mcp", json=PING, headers={**theirs, **number})
        unknown = await http.post(
            f"{place.url}/mcp", json=PING, headers={**mine, "Mcp-Session-Id": "0"}
        )
        own = await http.post(f"{place.url}/mcp", json=PING, headers={**mine, **number})

    assert (stolen.status_code, unknown.status_code, own.status_code) == (404, 404, 200)


async def test_a_large_tool_result_arrives_complete(place: RunningHub, tmp_path: Path) -> None:
    async with place.fake_window(tmp_path), over_http(f"{place.url}/mcp", place.agent) as client:
        seen = await call(
            client, "run_command", command="head -c 10000000 /dev/zero | tr '\\0' x; echo end"
        )

    assert len(text_of(seen)) < 32_000
    assert "read_more" in text_of(seen)
    assert "end" in text_of(seen)[-100:]


async def test_the_hub_stops_while_a_client_waits(tmp_path: Path) -> None:
    hub = Hub(HubSettings(admin_token=ADMIN), mounts=(McpMount,))
    await hub.start()
    try:
        async with over_http(f"{hub.url}/mcp", ADMIN) as client:
            assert names_of(await client.list_tools())
            async with asyncio.timeout(10):
                await hub.aclose()
    except* httpx.HTTPError:
        pass  # the client says goodbye to a hub that is gone
