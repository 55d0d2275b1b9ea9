"""What a hostile or unlucky client of /openhands/v0 can do: be told what is wrong, and no more."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from bascule.core.sessions import SessionId
from bascule.hub import Identity
from tests.hub.serving import RunningHub
from tests.hub.sessions.serving import kill_server

from .asking import START, Openhands, inside, run

pytestmark = pytest.mark.slow

ADMIN = Identity(name="admin", owner="admin", scope="admin")


@pytest.mark.parametrize(
    "asked",
    [
        {"session_id": ""},
        {"session_id": "x" * 151},
        {"session_id": "clear\x1b[2Jscreen"},
        {"session_id": ["a", "list"]},
        {"environment": {"A": "zero\0byte"}},
        {"environment": {"A=B": "c"}},
        {"environment": {"": "c"}},
        {"environment": {"BASCULE_EGRESS": "everything"}},
        {"command": ["--working-dir", "/etc"]},
        {"command": ["--username", "zero\0byte"]},
        {"resource_factor": 0.0001},
        {"resource_factor": 1e9},
    ],
)
async def test_an_invalid_start_request_is_rejected_and_creates_no_session(
    client: Openhands, asked: dict[str, Any]
) -> None:
    status, told = await client.ask("POST", "/start", {**START, **asked})
    listed = await client.must("GET", "/list")

    assert (status, told["code"]) == (400, "request.invalid")
    assert told["detail"] == told["message"] != ""
    assert listed == {"runtimes": []}


async def test_unknown_runtimes_and_sessions_return_404(client: Openhands) -> None:
    strange = [
        *("../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%00", "a" * 3000, "%ff%fe", "'%3Bdrop"),
        "openhands/v0/" + "0" * 25,
    ]
    for each in strange:
        assert (await client.ask("GET", f"/sessions/{each}"))[0] == 404, each
        assert (await client.ask("GET", f"/runtime/{each}"))[0] == 404, each
        assert (await client.ask("POST", "/stop", {"runtime_id": each}))[0] == 404, each
        assert (await client.ask("GET", f"/{each}/alive"))[0] == 404, each
    bodies: list[object] = [None, [], "text", {"runtime_id": 7}, {"runtime": "x"}]
    for body in bodies:
        status, told = await client.ask("POST", "/pause", body)
        assert status in (400, 422), (body, told)


async def test_a_body_that_is_no_json_or_too_large_is_refused(client: Openhands) -> None:
    started = await client.must("POST", "/start", START)
    where = f"/openhands/v0{inside(started)}/execute_action"
    kind = {"Content-Type": "application/json"}
    broken = await client.request("POST", where, body=b'{"action": ', headers=kind, timeout=60)
    deep = await client.request("POST", where, body=b"[" * 100_000, headers=kind, timeout=60)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    other = await client.request("POST", where, body=b"action=run", headers=form, timeout=60)
    large = await client.request("POST", where, body=b" " * (33 << 20), headers=kind, timeout=60)
    after = await client.must("POST", f"{inside(started)}/execute_action", run("echo well"))

    assert [each.status for each in (broken, deep, other, large)] == [422, 422, 415, 413]
    assert after["content"] == "well\n"


async def test_two_concurrent_starts_of_a_conversation_share_one_runtime(
    hub: RunningHub, client: Openhands
) -> None:
    asked = [client.must("POST", "/start", START) for _ in range(5)]
    started = await asyncio.gather(*asked)

    assert len({each["runtime_id"] for each in started}) == 1
    assert len(hub.hub.sessions.list(ADMIN)) == 1


async def test_a_start_during_removal_creates_a_new_runtime(client: Openhands) -> None:
    first = await client.must("POST", "/start", START)
    await client.must("POST", f"{inside(first)}/execute_action", run("echo old > file"))
    stopping = asyncio.create_task(client.ask("POST", "/stop", {"runtime_id": first["runtime_id"]}))
    status, second = 200, first
    while status == 503 or second["runtime_id"] == first["runtime_id"]:  # it has not yet gone
        status, second = await client.ask("POST", "/start", START)
        assert status in (200, 503), second
    seen = await client.must("POST", f"{inside(second)}/execute_action", run("cat file"))

    assert (await stopping)[0] == 200
    assert second["status"] == "running"
    assert seen["extras"]["metadata"]["exit_code"] == 1


async def test_a_start_during_a_stop_restarts_the_runtime_with_its_files(
    hub: RunningHub, client: Openhands
) -> None:
    started = await client.must("POST", "/start", START)
    where = f"{inside(started)}/execute_action"
    await client.must("POST", where, run("echo kept > file"))
    (row,) = hub.hub.sessions.list(ADMIN)
    stopping = asyncio.create_task(hub.hub.sessions.stop(ADMIN, row.id))
    while hub.hub.sessions.get(ADMIN, row.id).state == "ready":
        await asyncio.sleep(0)
    again, seen = await asyncio.gather(
        client.must("POST", "/start", START), client.must("POST", where, run("cat file"))
    )
    await stopping

    assert (again["runtime_id"], again["status"]) == (started["runtime_id"], "running")
    assert seen["content"] == "kept\n"


async def test_a_session_killed_during_an_action_is_reported_and_restarts(
    hub: RunningHub, client: Openhands
) -> None:
    started = await client.must("POST", "/start", START)
    where = f"{inside(started)}/execute_action"
    await client.must("POST", where, run("echo kept > file"))
    (row,) = hub.hub.sessions.list(ADMIN)
    running = asyncio.create_task(client.ask("POST", where, run("touch begun; sleep 1000")))
    await _until_there(hub, row.id, "begun")
    kill_server(hub.hub.sessions.directories.run / row.id)
    status, told = await running
    async with aclosing(hub.hub.sessions.events(row.id)) as events:
        async for _ in events:
            if hub.hub.sessions.get(ADMIN, row.id).state == "failed":
                break
    seen = await client.must("POST", where, run("cat file"))

    assert status == 502
    assert told["code"] in ("sandbox.died", "outcome.unknown", "sandbox.unreachable")
    assert seen["content"] == "kept\n"


async def _until_there(hub: RunningHub, session_id: SessionId, name: str) -> None:
    workspace = hub.hub.sessions.directories.sessions / session_id / "workspace"
    while not await asyncio.to_thread((workspace / name).exists):
        await asyncio.sleep(0.01)  # nobody tells of it; bounded by the test's own timeout
