"""/mcp on a hub, with the official client over streamable HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import httpx
import pytest

from bascule.adapters.mcp import McpMount, SessionLine
from bascule.core.contracts import Runtime
from bascule.core.errors import NoSuchSession
from bascule.hub import Hub, HubSettings, Identity
from bascule.runtime import LocalRuntime
from tests.hub.serving import ADMIN, Place

from .clients import call, code_of, names_of, over_http, text_of

pytestmark = pytest.mark.slow

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
KINDS = {"Accept": "application/json, text/event-stream"}


class OneSession:
    """The sessions of an owner: a single one, in a directory."""

    def __init__(self, directory: Path, _: Identity) -> None:
        self._directory = directory

    async def list(self) -> Sequence[SessionLine]:
        return (SessionLine(id="s1", name="first", state="ready"),)

    async def open(self, session_id: str) -> Runtime:
        if session_id != "s1":
            raise NoSuchSession(f"There is no session {session_id!r}")
        runtime = LocalRuntime(self._directory, default_timeout=None)
        await runtime.connect()
        return runtime


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    (tmp_path / "session").mkdir()
    sessions = partial(OneSession, tmp_path / "session")
    async with Place(mounts=(partial(McpMount, sessions=sessions),)) as here:
        yield here


async def test_a_client_works_in_the_only_window(place: Place, tmp_path: Path) -> None:
    async with place.fake_window(tmp_path), over_http(f"{place.url}/mcp", place.agent) as client:
        assert {"run_command", "list_windows", "use_session"} <= names_of(await client.list_tools())
        seen = await call(client, "run_command", command="pwd")

    assert text_of(seen).startswith(f"{tmp_path}\n")


async def test_one_of_several_windows_is_picked(place: Place, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    async with (
        place.fake_window(one, name="one"),
        place.fake_window(two, name="two"),
        over_http(f"{place.url}/mcp", place.agent) as client,
    ):
        torn = await call(client, "run_command", command="pwd")
        await call(client, "use_window", window="two")
        there = await call(client, "run_command", command="pwd")
        lost = await call(client, "use_window", window="three")
        still = await call(client, "run_command", command="pwd")

    assert code_of(torn) == "window.ambiguous"
    assert text_of(there).startswith(f"{two}\n")
    assert code_of(lost) == "window.none"
    assert text_of(still).startswith(f"{two}\n")


async def test_without_a_window_tools_say_what_to_do(place: Place) -> None:
    async with over_http(f"{place.url}/mcp", place.agent) as client:
        assert "run_command" in names_of(await client.list_tools())
        assert code_of(await call(client, "run_command", command="pwd")) == "window.none"


async def test_a_sessions_path_is_that_session_alone(place: Place, tmp_path: Path) -> None:
    token = await place.token("of s1", "session", session_id="s1")
    async with over_http(f"{place.url}/mcp/s1", token) as client:
        names = names_of(await client.list_tools())
        seen = await call(client, "run_command", command="pwd")

    assert not names & {"list_windows", "use_window", "use_session"}
    assert text_of(seen).startswith(f"{tmp_path / 'session'}\n")


async def test_a_session_is_picked_by_a_tool(place: Place, tmp_path: Path) -> None:
    async with over_http(f"{place.url}/mcp", place.agent) as client:
        listed = await call(client, "list_sessions")
        unknown = await call(client, "use_session", session="s9")
        await call(client, "use_session", session="s1")
        seen = await call(client, "run_command", command="pwd")

    assert text_of(listed) == "s1  first  ready"
    assert code_of(unknown) == "session.not_found"
    assert text_of(seen).startswith(f"{tmp_path / 'session'}\n")


@pytest.mark.parametrize(
    ("path", "scope", "status", "code"),
    [
        ("/mcp", "", 401, "access.denied"),
        ("/mcp", "wrong", 401, "access.denied"),
        ("/mcp", "window", 403, "access.denied"),
        ("/mcp", "session", 403, "access.denied"),
        ("/mcp/s1", "window", 403, "access.denied"),
        ("/mcp/s9", "agent", 404, "session.not_found"),
        ("/mcp/s1/x", "agent", 404, "session.not_found"),
    ],
)
async def test_who_may_not_is_told(
    place: Place, path: str, scope: str, status: int, code: str
) -> None:
    tokens = {"agent": place.agent, "window": place.window, "wrong": "wrong", "": ""}
    tokens["session"] = await place.token("of s1", "session", session_id="s1")
    headers = {"Authorization": f"Bearer {tokens[scope]}"} if scope else {}
    async with httpx.AsyncClient(headers={**KINDS, **headers}) as http:
        reply = await http.post(place.url + path, json=PING)

    assert (reply.status_code, reply.json()["code"]) == (status, code)


async def test_a_clients_number_is_no_use_to_another_token(place: Place) -> None:
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


async def test_a_large_result_comes_through(place: Place, tmp_path: Path) -> None:
    async with place.fake_window(tmp_path), over_http(f"{place.url}/mcp", place.agent) as client:
        seen = await call(
            client, "run_command", command="head -c 10000000 /dev/zero | tr '\\0' x; echo end"
        )

    assert len(text_of(seen)) < 32_000
    assert "read_more" in text_of(seen)
    assert "end" in text_of(seen)[-100:]


async def test_the_hub_stops_though_a_client_waits(tmp_path: Path) -> None:
    hub = Hub(HubSettings(admin_token=ADMIN), mounts=(McpMount,))
    await hub.start()
    try:
        async with over_http(f"{hub.url}/mcp", ADMIN) as client:
            assert names_of(await client.list_tools())
            async with asyncio.timeout(10):
                await hub.aclose()
    except* httpx.HTTPError:
        pass  # the client says goodbye to a hub that is gone
