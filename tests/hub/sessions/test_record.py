"""What sessions did is written down, lasts, and is handed out to those who may have it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

import pytest

from bascule.wire import from_json
from tests.contracts.spawner import server_of
from tests.hub.sessions.serving import SessionHub, SessionsClient, open_session_hub

pytestmark = pytest.mark.slow

SECRET = "correct horse battery"


@pytest.fixture
async def hub() -> AsyncIterator[SessionHub]:
    async with open_session_hub() as made:
        yield made


@pytest.fixture
async def admin(hub: SessionHub) -> AsyncIterator[SessionsClient]:
    async with SessionsClient(hub.url) as asker:
        yield asker


async def exported(asker: SessionsClient, session: str) -> list[dict[str, Any]]:
    body = await asker.must("GET", f"/api/sessions/{session}/timeline.jsonl")
    return [from_json(line) for line in body.splitlines()]


async def run_commands(hub: SessionHub, session: str, *commands: str) -> None:
    """Return once these have been recorded as done, and nothing else."""
    seen: list[str] = []
    async with asyncio.timeout(60):
        timeline = hub.hub.sessions.timeline(hub.identity, hub.session(session), after=0, epoch="")
        async with aclosing(timeline) as batches:
            async for _, entries in batches:
                done = [each for each in entries if each["kind"] == "observation"]
                seen += [each["event"]["extras"]["command"] for each in done]
                if len(seen) >= len(commands):
                    break
    assert seen == list(commands)


def commands(events: list[dict[str, Any]]) -> list[str]:
    return [each["args"]["command"] for each in events if each.get("action") == "run"]


def kill(hub: SessionHub, session: str) -> None:
    class Plan:
        run_dir = hub.directory / "run" / session

    os.kill(server_of(Plan), signal.SIGKILL)  # type: ignore[arg-type]


async def failed(asker: SessionsClient, session: str) -> None:
    async for name, data in asker.events(session):
        if name == "state" and data["state"] == "failed":
            return


async def test_a_session_is_recorded_through_stop_restart_and_kills(
    hub: SessionHub, admin: SessionsClient
) -> None:
    session = await admin.ready()
    await admin.run(session, "echo one")
    await run_commands(hub, session, "echo one")
    await hub.stop()
    await hub.start()
    async with SessionsClient(hub.url) as asker:
        await asker.run(session, "echo two")
        await run_commands(hub, session, "echo one", "echo two")
        kill(hub, session)
        await failed(asker, session)
        assert commands(await exported(asker, session)) == ["echo one", "echo two"]
        await asker.must("POST", f"/api/sessions/{session}/resume")
        await asker.reaches(session, "ready")
        await asker.run(session, "echo three")
        await run_commands(hub, session, "echo one", "echo two", "echo three")
        await asker.must("POST", f"/api/sessions/{session}/stop")
        events = await exported(asker, session)
        assert commands(events) == ["echo one", "echo two", "echo three"]
        ids = [each["id"] for each in events]
        assert ids == sorted(set(ids))
        answers = {each["cause"]: each["content"] for each in events if "observation" in each}
        assert [answers[each["id"]] for each in events if "action" in each] == [
            "one\n",
            "two\n",
            "three\n",
        ]
        await asker.must("DELETE", f"/api/sessions/{session}")
        assert (await asker.ask("GET", f"/api/sessions/{session}/timeline.jsonl"))[0] == 404
    assert not any((hub.directory / "timelines" / "sessions").iterdir())


async def test_secrets_are_neither_on_disk_nor_in_an_export(
    hub: SessionHub, admin: SessionsClient
) -> None:
    session = await admin.ready({"secrets": {"WORD": SECRET}})
    command = f"echo $WORD; echo '{SECRET}' > f; cat f"
    await admin.run(session, command)
    action, observation = await exported(admin, session)
    assert action["bascule"]["masked"] is True
    assert observation["bascule"]["masked"] is True
    assert observation["content"] == "***\n***\n"
    files = [each for each in (hub.directory / "timelines").rglob("*") if each.is_file()]
    assert files
    assert not any(SECRET.encode() in each.read_bytes() for each in files)


async def test_other_owners_cannot_read_a_timeline(hub: SessionHub, admin: SessionsClient) -> None:
    session = await admin.ready()
    where = f"/api/sessions/{session}/timeline.jsonl"
    stranger = await hub.token("stranger", "agent", owner="somebody else")
    inside = await hub.token("inside", "session", session_id=session)
    other = await hub.token("other", "session", session_id="another")
    wanted: Mapping[str, int] = {"": 401, hub.window: 403, stranger: 404, inside: 200, other: 404}
    for token, status in wanted.items():
        async with SessionsClient(hub.url, token=token) as asker:
            assert (await asker.ask("GET", where))[0] == status, token


async def test_an_oversized_event_is_dropped_but_later_events_are_kept() -> None:
    async with open_session_hub(message_bytes=200_000) as hub, SessionsClient(hub.url) as admin:
        session = await admin.ready()
        await admin.run(session, "echo one")
        large = {"action": "run", "args": {"command": "seq 1000000", "output_limit": 0}}
        await admin.ask("POST", f"/api/sessions/{session}/actions", large)
        await admin.run(session, "echo two")
        events = await exported(admin, session)
        assert commands(events) == ["echo one", "seq 1000000", "echo two"]
        assert events[3]["bascule"]["missed"] == 1
        assert events[4]["content"] == "two\n"


async def test_the_timeline_is_exported_as_a_json_list_on_request(
    hub: SessionHub, admin: SessionsClient
) -> None:
    session = await admin.ready()
    where = f"/api/sessions/{session}/timeline.jsonl"
    assert await admin.must("GET", f"{where}?format=json") == []
    await admin.run(session, "printf '</script>\\x00\\xff\\n'")
    listed = await admin.must("GET", f"{where}?format=json")
    assert listed == await exported(admin, session)
    reply = await admin.request("GET", where)
    assert reply.headers["content-disposition"] == (
        f'attachment; filename="session-{session}.jsonl"'
    )
    assert "sandbox" in reply.headers["content-security-policy"]
    assert (await admin.ask("GET", f"{where}?format=xml"))[0] == 422
