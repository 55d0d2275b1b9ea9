"""Terminals for people, and the timeline of what agents do."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bascule.link.sse import EventReader
from bascule.wire import from_json

from .running import Session, launch_in, running

pytestmark = pytest.mark.slow


@asynccontextmanager
async def stream(session: Session, target: str) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
    async with session.client.stream("GET", target, timeout=30) as reply:
        assert reply.status == 200

        async def read() -> AsyncIterator[tuple[str, Any]]:
            reader = EventReader()
            async for chunk in reply.chunks():
                for event in reader.feed(chunk):
                    yield event.name, from_json(event.data)

        yield read()


async def shown_until(frames: AsyncIterator[tuple[str, Any]], text: bytes) -> bytes:
    shown = b""
    async for name, frame in frames:
        if name == "output":
            shown += base64.b64decode(frame["data"])
        if text in shown:
            return shown
    raise AssertionError(f"{text!r} never came: {shown!r}")


def keys(text: str) -> dict[str, str]:
    return {"data": base64.b64encode(text.encode()).decode()}


async def test_a_terminal_is_typed_into_resized_and_found_again(tmp_path: Path) -> None:
    one = "/session/terminals/mine"
    async with running(launch_in(tmp_path)) as session:
        size = {"columns": 90, "rows": 20}
        assert (await session.post(one, size))[0] == 200
        async with stream(session, f"{one}/output") as frames:
            await session.post(f"{one}/keys", keys("pwd; stty size; kept=42\n"))
            shown = await shown_until(frames, b"20 90\r\n")
        assert str(session.workspace).encode() in shown

        status, found = await session.post(one, {"columns": 70, "rows": 10})
        assert (status, found["start"]) == (200, 0)
        async with stream(session, f"{one}/output?start={found['end']}") as frames:
            await session.post(f"{one}/keys", keys("echo still $kept; stty size\n"))
            assert b"10 70" in await shown_until(frames, b"still 42\r\n10 70\r\n")
            await session.post(f"{one}/keys", keys("exit\n"))
            rest = [name async for name, _ in frames]
        assert rest[-1] == "ended"


async def test_closing_a_terminal_ends_what_it_started(tmp_path: Path) -> None:
    one = "/session/terminals/mine"
    async with running(launch_in(tmp_path)) as session:
        await session.post(one, {})
        async with stream(session, f"{one}/output") as frames:
            await session.post(f"{one}/keys", keys("sleep 300 & echo p''id=$!=\n"))
            shown = b""
            while not (found := re.search(rb"pid=(\d+)=", shown)):
                shown += await shown_until(frames, b"=")
        pid = int(found[1])
        assert (await session.delete(one))[0] == 200
        async with asyncio.timeout(30):
            while await asyncio.to_thread(Path(f"/proc/{pid}").exists):
                await asyncio.sleep(0.01)
        status, answer = await session.post(f"{one}/keys", keys("x"))
        assert (status, answer["error"]["code"]) == (400, "shell.not_found")


async def test_invalid_terminal_requests_are_rejected(tmp_path: Path) -> None:
    one = "/session/terminals/mine"
    async with running(launch_in(tmp_path)) as session:
        nonsense: tuple[object, ...] = ({"columns": 0}, {"rows": 5000}, {"columns": "80"}, [])
        for wrong in nonsense:
            assert (await session.post(one, wrong))[0] == 400
        await session.post(one, {})
        assert (await session.post(f"{one}/keys", {"data": "no base64"}))[0] == 400


async def test_the_timeline_contains_every_action_and_can_be_resumed(tmp_path: Path) -> None:
    async with running(launch_in(tmp_path)) as session:
        await session.act("echo one")
        async with stream(session, "/session/timeline") as told:
            name, begin = await anext(told)
            assert name == "begin"
            first = [(await anext(told))[1] for _ in range(2)]
            assert [each["kind"] for each in first] == ["action", "observation"]
            assert first[0]["event"]["args"]["command"] == "echo one"
            assert first[1]["event"]["content"] == "one\n"
            assert first[1]["event"]["cause"] == first[0]["event"]["id"]
            await session.act("echo two; false")
            live = [(await anext(told))[1] for _ in range(3)]
            assert [each["kind"] for each in live] == ["action", "output", "observation"]
            assert base64.b64decode(live[1]["data"]) == b"two\n"
        after = f"/session/timeline?epoch={begin['epoch']}&after=3"
        async with stream(session, after) as told:
            await anext(told)
            _, entry = await anext(told)
            assert (entry["n"], entry["event"]["success"]) == (4, False)
