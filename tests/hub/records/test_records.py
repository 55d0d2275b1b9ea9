"""Records of windows, how long they last, and how much they take while they are handed out."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from bascule.core.sessions import SessionId
from bascule.core.windows import WindowId
from bascule.hub.records.export import export_record
from bascule.hub.records.record import Record
from bascule.hub.records.records import Records
from bascule.hub.records.segments import RecordLine, Segments
from bascule.hub.sessions.masking import Mask
from bascule.hub.settings import HubSettings
from bascule.wire import from_json, to_json
from tests.hub.serving import Client, RunningHub

DAY = 86400.0


def kept(directory: Path | None, **settings: Any) -> HubSettings:
    return HubSettings(admin_token="t", state_dir=directory, **settings)


async def entries(record: Record) -> list[dict[str, Any]]:
    return [each async for some in record.entries() for each in some]


def action(number: int, text: str = "") -> dict[str, Any]:
    return {"event": {"id": f"a{number}", "action": "run", "args": {"command": text}}}


# One record -------------------------------------------------------------------------------------


async def test_a_follower_gets_past_and_current_entries(tmp_path: Path) -> None:
    first = Record(Segments(tmp_path, max_bytes=1 << 20), lambda: Mask(()))
    await first.open()
    first.note("action", action(1))
    await first.aclose()
    again = Record(Segments(tmp_path, max_bytes=1 << 20), lambda: Mask(()))
    await again.open()
    again.note("action", action(2))
    async with aclosing(again.follow()) as told:
        epoch, nothing = await anext(told)
        assert nothing == []
        assert [each["n"] for each in (await anext(told))[1]] == [1, 2]
        again.note("action", action(3, "x" * 100_000))
        shown = (await anext(told))[1]
        assert (shown[0]["n"], len(shown[0]["event"]["args"]["command"]) < 70_000) == (3, True)
    async with aclosing(again.follow(after=2, epoch=epoch)) as told:
        await anext(told)
        assert [each["n"] for each in (await anext(told))[1]] == [3]
        again.finish()
        assert [batch async for batch in told] == []
    assert [len(each["event"]["args"]["command"]) for each in await entries(again)] == [
        0,
        0,
        100_000,
    ]


async def test_without_a_directory_only_the_newest_entries_are_kept_in_memory(
    tmp_path: Path,
) -> None:
    record = Record(None, lambda: Mask(("word",)))
    await record.open()
    record.note("action", action(1, "a word"))
    assert (await entries(record))[0]["event"]["args"]["command"] == "a ***"
    async with aclosing(record.follow()) as told:
        await anext(told)
        assert (await anext(told))[1][0]["masked"] is True


async def test_secrets_are_masked_in_every_json_spelling(tmp_path: Path) -> None:
    secret = 'say "ü"\n\\'
    record = Record(Segments(tmp_path, max_bytes=1 << 20), lambda: Mask((secret,)))
    await record.open()
    record.note("action", action(1, f"echo {secret}!"))
    record.note("action", action(2, "echo ***"))
    first, second = await entries(record)
    assert (first["event"]["args"]["command"], first["masked"]) == ("echo ***!", True)
    assert "masked" not in second


async def test_entries_that_json_cannot_represent_are_dropped(tmp_path: Path) -> None:
    record = Record(Segments(tmp_path, max_bytes=1 << 20), lambda: Mask(()))
    await record.open()
    record.note("action", {"event": {"id": "a", "args": {"end": float("nan")}}})
    record.note("action", action(2))
    assert [(each["n"], each["missed"]) for each in await entries(record)] == [(1, 1)]


async def test_entries_that_cannot_be_written_are_counted(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    record = Record(Segments(in_the_way / "record", max_bytes=1 << 20), lambda: Mask(()))
    await record.open()
    record.note("action", action(1))
    await record._flush_or_log()
    await asyncio.to_thread(in_the_way.unlink)
    record.note("action", action(2))
    await record.flush()
    assert [(each["n"], each["missed"]) for each in await entries(record)] == [(2, 1)]


# How long they last -----------------------------------------------------------------------------


async def test_records_expire_and_are_removed_with_their_session(tmp_path: Path) -> None:
    now = 1_000_000_000.0
    records = Records(kept(tmp_path, timeline_days=2.0), clock=lambda: now)
    stays, goes = SessionId("stays"), SessionId("goes")
    gone, here = WindowId(str(uuid4())), WindowId(str(uuid4()))
    for record in (
        await records.of_session(stays),
        await records.of_session(goes),
        await records.of_window(gone, "ann"),
        await records.of_window(here, "ann"),
    ):
        record.note("action", action(1), time=now - 3 * DAY)
        await record.flush()
        record.note("action", action(2), time=now - 1 * DAY)
        await record.flush()
    await asyncio.to_thread(dated, tmp_path / "timelines")

    await records.sweep({stays}, {here})
    assert [each["n"] for each in await entries(await records.of_session(stays))] == [2]
    assert not (tmp_path / "timelines" / "sessions" / "goes").exists()
    assert [each["n"] for each in await entries(await records.of_window(gone, "ann"))] == [2]
    assert await records.window_owner(gone) == "ann"

    now += 2 * DAY
    await records.sweep(None, {here})
    assert [each.name for each in (tmp_path / "timelines" / "windows").iterdir()] == [here]
    assert [each["n"] for each in await entries(await records.of_session(stays))] == [2]
    (await records.of_window(here, "ann")).note("action", action(3))
    assert [each["n"] for each in await entries(await records.of_window(here, "ann"))] == [3]
    await records.aclose()


def dated(directory: Path) -> None:
    """Have each file changed last when its lines say."""
    for file in directory.rglob("*.jsonl"):
        time = from_json(file.read_bytes().splitlines()[-1])["time"]
        os.utime(file, (time, time))


# Windows, over the hub's own port ---------------------------------------------------------------


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    async with RunningHub(tmp_path / "state") as place:
        yield place


@pytest.mark.slow
async def test_a_windows_record_survives_the_window_and_the_hub(
    hub: RunningHub, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    async with hub.fake_window(folder) as window, Client(hub.url, token=hub.agent) as agent:
        act = f"/api/vscode/instance/{window.id}/actions"
        name = "<img src=x onerror=alert(1)>\n\x1b[2J"
        for event in (
            {"action": "run", "args": {"command": "echo one"}},
            {"action": "write", "args": {"path": name, "content": "\u2028 </script>"}},
            {"action": "mkdir", "args": {"path": "made"}},
        ):
            assert (await agent.ask("POST", act, {"id": str(uuid4()), **event}))[0] == 200
        window_id = window.id
    await hub.stop()
    await hub.start()
    where = f"/api/windows/{window_id}/timeline.jsonl"
    async with Client(hub.url, token=hub.agent) as agent:
        status, body = await agent.ask("GET", where)
        assert status == 200
        events = list(map(from_json, body.splitlines()))
    assert [each.get("action") for each in events[::2]] == ["run", "write", "null"]
    assert [each["bascule"]["who"] for each in events[::2]] == ["agent"] * 3
    assert [each["cause"] for each in events[1::2]] == [1, 3, 5]
    assert events[2]["args"]["path"] == name
    assert events[4]["bascule"]["action"] == "mkdir"
    stranger = await hub.token("stranger", "agent", owner="somebody else")
    for token, asked, status in (
        ("", where, 401),
        (hub.window, where, 403),
        (stranger, where, 404),
        (hub.agent, f"/api/windows/{uuid4()}/timeline.jsonl", 404),
        (hub.agent, "/api/windows/..%2f..%2fsecrets/timeline.jsonl", 404),
    ):
        async with Client(hub.url, token=token) as asker:
            assert (await asker.ask("GET", asked))[0] == status, (token, asked)


def large(directory: Path, *, lines: int, size: int) -> None:
    segments = Segments(directory, max_bytes=1 << 30)
    segments.open()
    for number in range(1, lines + 1):
        entry = {"n": number, "kind": "action", "time": 0.0, **action(number, "x" * size)}
        segments.append([RecordLine(number, to_json(entry) + b"\n", 0.0)])


@pytest.mark.slow
async def test_a_large_export_uses_little_memory(tmp_path: Path) -> None:
    """200 MB pass; what is held meanwhile is a few lines."""
    await asyncio.to_thread(large, tmp_path, lines=400, size=500_000)
    record = Record(Segments(tmp_path, max_bytes=1 << 30), lambda: Mask(()))
    await record.open()
    before = most = await asyncio.to_thread(held)
    size = 0
    async with aclosing(export_record(record, "jsonl")) as pieces:
        async for piece in pieces:
            size += len(piece)
            most = max(most, await asyncio.to_thread(held))
    assert size > 200_000_000
    assert most - before < 50_000_000


def held() -> int:
    """Bytes of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
async def test_the_checkpoint_of_a_windows_action_is_in_its_record_only(
    hub: RunningHub, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    store = tmp_path / "checkpoints"
    async with (
        hub.fake_window(folder, checkpoints=store) as window,
        Client(hub.url, token=hub.agent) as agent,
    ):
        act = f"/api/vscode/instance/{window.id}/actions"
        for event in (
            {"action": "run", "args": {"command": "touch made"}},
            {"action": "read", "args": {"path": "made"}},
            {"action": "restore", "args": {"checkpoint": 1}},
        ):
            status, seen = await agent.ask("POST", act, {"id": str(uuid4()), **event})
            assert status == 200
            assert "checkpoint" not in seen
        status, body = await agent.ask("GET", f"/api/windows/{window.id}/timeline.jsonl")
    found = [from_json(line)["bascule"].get("checkpoint") for line in body.splitlines()]
    assert found[1::2] == [1, None, 2]
