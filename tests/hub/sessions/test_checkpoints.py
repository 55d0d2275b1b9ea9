"""What actions change in a session is recorded beside its state, and restored over the hub."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

import pytest

from bascule.runtime import CloudRuntime
from tests.cli.processes import bascule, environment
from tests.hub.serving import ADMIN
from tests.hub.sessions.serving import SessionHub, SessionsClient, kill_server, open_session_hub

pytestmark = pytest.mark.slow


@pytest.fixture
async def hub() -> AsyncIterator[SessionHub]:
    async with open_session_hub() as made:
        yield made


@pytest.fixture
async def admin(hub: SessionHub) -> AsyncIterator[SessionsClient]:
    async with SessionsClient(hub.url) as asker:
        yield asker


async def entries(hub: SessionHub, session: str, count: int) -> list[Mapping[str, Any]]:
    """The first observations in the session's timeline."""
    seen: list[Mapping[str, Any]] = []
    async with asyncio.timeout(60):
        timeline = hub.hub.sessions.timeline(hub.identity, hub.session(session), after=0, epoch="")
        async with aclosing(timeline) as batches:
            async for _, some in batches:
                seen += [each for each in some if each["kind"] == "observation"]
                if len(seen) >= count:
                    break
    return seen


async def test_the_checkpoint_of_a_command_is_listed_shown_and_restored_over_rest(
    hub: SessionHub, admin: SessionsClient
) -> None:
    session = await admin.ready()
    where = f"/api/sessions/{session}/checkpoints"
    await admin.run(session, "echo one > notes; mkdir src; echo code > src/main")
    await admin.run(session, "true")
    await admin.run(session, "echo two > notes; rm -rf src")

    listed = await admin.must("GET", where)
    first, second = listed["items"]
    assert second["title"] == "Run `echo two > notes; rm -rf src`"
    assert (listed["removed_up_to"], listed["not_kept"]) == (0, [])
    shown = await admin.must("GET", f"{where}/{second['id']}?path=notes")
    assert [each["path"] for each in shown["changes"]] == ["notes"]
    assert "-one\n+two" in shown["content"]
    again = f"{where}/{second['id']}/restore"
    planned = await admin.must("POST", again, {"dry_run": True})
    assert planned["restored"] == ["notes", "src", "src/main"]
    assert await admin.run(session, "cat notes") == "two\n"
    restored = await admin.must("POST", again)
    assert (restored["restored"], restored["conflicts"]) == (planned["restored"], [])
    assert await admin.run(session, "cat notes src/main") == "one\ncode\n"
    since = await admin.must("POST", f"{where}/{first['id']}/restore", {"since": True})
    assert sorted(since["removed"]) == ["notes", "src", "src/main"]
    status, answer = await admin.ask("POST", f"{where}/99/restore")
    assert (status, answer["code"]) == (404, "checkpoint.not_found")

    told = await entries(hub, session, 3)
    found = [each.get("checkpoint") for each in told]
    assert found[:3] == [first["id"], None, second["id"]]


async def test_the_store_is_beside_the_state_and_survives_a_kill_of_the_server(
    hub: SessionHub, admin: SessionsClient
) -> None:
    session = await admin.ready()
    await admin.run(session, "echo one > notes")
    await admin.run(session, "echo two > notes")
    kill_server(hub.directory / "run" / session)
    async for name, data in admin.events(session):
        if name == "state" and data["state"] == "failed":
            break
    await admin.must("POST", f"/api/sessions/{session}/resume")
    await admin.reaches(session, "ready")
    assert await admin.run(session, "ls -A") == "notes\n"

    async with CloudRuntime(hub.url, ADMIN, session_id=session) as runtime:
        last = (await runtime.checkpoints()).items[-1]["id"]
        await runtime.restore(last)
        assert (await runtime.read("notes")).content == "one\n"
    state = hub.directory / "sessions" / session / "state" / "checkpoints"
    assert state.stat().st_mode & 0o777 == 0o700


async def test_files_left_out_of_checkpoints_are_reported_as_a_session_event(
    admin: SessionsClient,
) -> None:
    session = await admin.ready()
    await admin.run(session, "mkdir node_modules; truncate -s 20M large; echo a > a")
    await admin.run(session, "true")
    told = ""
    async with asyncio.timeout(60):
        async for name, data in admin.events(session):
            if name == "checkpoints.notice":
                told = data["text"]
                break
    assert "large (20 MiB, larger than 10 MiB)" in told


async def test_a_session_without_checkpoints_says_so(admin: SessionsClient) -> None:
    session = await admin.ready({"checkpoints": False})
    await admin.run(session, "echo one > notes")
    status, answer = await admin.ask("GET", f"/api/sessions/{session}/checkpoints")
    assert (status, answer["code"]) == (400, "capability.missing")
    assert "records no checkpoints" in answer["message"]


async def test_checkpoints_of_another_owner_are_not_visible(
    hub: SessionHub, admin: SessionsClient
) -> None:
    session = await admin.ready()
    await admin.run(session, "echo one > notes")
    where = f"/api/sessions/{session}/checkpoints/1/restore"
    stranger = await hub.token("stranger", "agent", owner="somebody else")
    inside = await hub.token("inside", "session", session_id=session)
    for token, status in {"": 401, hub.window: 403, stranger: 404, inside: 200}.items():
        async with SessionsClient(hub.url, token=token) as asker:
            assert (await asker.ask("POST", where))[0] == status, token


async def test_the_command_line_restores_in_a_session(
    hub: SessionHub, admin: SessionsClient
) -> None:
    session = await admin.ready({"name": "work"})
    await admin.run(session, "echo one > notes")
    await admin.run(session, "rm notes")
    env = environment(BASCULE_HUB=hub.url, BASCULE_TOKEN=ADMIN)

    async def checkpoint(*words: str) -> Any:
        done = await asyncio.to_thread(bascule, "checkpoint", *words, "--session", "work", env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    listed = json.loads(await checkpoint("list", "--json"))["checkpoints"]
    last = str(listed[-1]["id"])
    assert "  D notes\n" in await checkpoint("show", last)
    assert "-one" in await checkpoint("diff", last)
    assert await checkpoint("restore", last, "--dry-run") == "would restore notes\n"
    assert await checkpoint("restore", last) == "restored notes\n"
    assert await admin.run(session, "cat notes") == "one\n"
