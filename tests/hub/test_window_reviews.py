"""The pending changes of a window reach admins, bounded, and their answers reach the window."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bascule.core.windows import WindowId
from bascule.hub.changes import Topic
from bascule.hub.review_messages import MAX_FILES
from bascule.hub.window_reviews import MAX_LIST_BYTES
from bascule.testing.window import FakeWindow

from .serving import Client, RunningHub
from .test_hostile_windows import HostileWindow, session_token

BEFORE = "1\n2\n3"
AFTER = "one\n2\nthree"


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[RunningHub]:
    async with RunningHub(tmp_path / "state", heartbeat=30.0) as place:
        yield place


@pytest.fixture
async def window(place: RunningHub, tmp_path: Path) -> AsyncIterator[FakeWindow]:
    async with place.fake_window(tmp_path) as window:
        yield window


class Reviewing:
    """Asks about the review of one window, and waits for the hub's news about it."""

    def __init__(self, place: RunningHub, client: Client, window_id: str) -> None:
        self._client = client
        self.where = f"/api/windows/{window_id}/review"
        self._news = asyncio.Event()
        place.hub._sockets._changes.subscribe(self._hear)

    def _hear(self, topic: Topic, _which: str) -> None:
        if topic == "review":
            self._news.set()

    async def changed(self) -> None:
        await self._news.wait()
        self._news.clear()

    async def files(self) -> list[dict[str, Any]]:
        status, told = await self._client.ask("GET", self.where)
        assert status == 200, told
        found: list[dict[str, Any]] = told["files"]
        return found

    async def target(self, name: str, **more: Any) -> dict[str, Any]:
        [file] = [each for each in await self.files() if each["name"] == name]
        return {"file": file["id"], "version": file["version"], **more}

    async def show(self, target: dict[str, Any]) -> tuple[int, Any]:
        where = f"{self.where}/{target['file']}?version={target['version']}"
        return await self._client.ask("GET", where)

    async def answer(self, answer: str, *files: dict[str, Any]) -> tuple[int, Any]:
        body = {"answer": answer, "files": files}
        return await self._client.ask("POST", self.where, body)


async def test_an_admin_keeps_and_undoes_hunks_and_files(
    place: RunningHub, window: FakeWindow
) -> None:
    async with Client(place.url) as admin:
        review = Reviewing(place, admin, window.id)
        assert await review.files() == []
        window.review.wrote("a.py", BEFORE, AFTER)
        await review.changed()
        window.review.wrote("b.py", BEFORE, AFTER, agent="other")
        await review.changed()
        [first, second] = await review.files()
        assert (first["name"], first["agents"], first["hunks"]) == ("a.py", ["helper"], 2)
        assert (first["added"], first["removed"], second["agents"]) == (2, 2, ["other"])
        status, told = await review.show(await review.target("a.py"))
        assert status == 200
        assert told["hunks"][1] == {
            "line": 3,
            "removed": ["3"],
            "added": ["three"],
            "is_whole": True,
        }

        assert (await review.answer("keep", await review.target("a.py", hunk=0)))[0] == 200
        await review.changed()
        rest = [await review.target(name) for name in ("a.py", "b.py")]
        assert await review.answer("undo", *rest) == (200, {"done": 2})
        await review.changed()

        assert await review.files() == []
        assert window.review.text("a.py") == "one\n2\n3"
        assert window.review.text("b.py") == BEFORE


async def test_a_stale_version_is_refused_and_nothing_is_done(
    place: RunningHub, window: FakeWindow
) -> None:
    async with Client(place.url) as admin:
        review = Reviewing(place, admin, window.id)
        window.review.wrote("a.py", BEFORE, AFTER)
        await review.changed()
        window.review.wrote("b.py", BEFORE, AFTER)
        await review.changed()
        seen = [await review.target(name) for name in ("a.py", "b.py")]
        window.review.wrote("b.py", BEFORE, "another text")
        await review.changed()
        for status, told in (
            await review.answer("undo", *seen),
            await review.answer("keep", *seen),
            await review.show(seen[1]),
        ):
            assert (status, told["code"]) == (409, "edit.conflict")
            assert "has changed since this was shown" in told["message"]
        assert window.review.text("a.py") == AFTER
        assert len(await review.files()) == 2


async def test_only_admins_see_and_answer(place: RunningHub, window: FakeWindow) -> None:
    tokens = [
        place.agent,
        place.window,
        await session_token(place),
        await place.token("elsewhere", "agent", owner="somebody else"),
    ]
    async with Client(place.url) as admin:
        review = Reviewing(place, admin, window.id)
        window.review.wrote("a.py", BEFORE, AFTER)
        await review.changed()
        target = await review.target("a.py")
        for token in tokens:
            async with Client(place.url, token=token) as other:
                denied = Reviewing(place, other, window.id)
                assert (await other.ask("GET", denied.where))[0] == 403
                assert (await denied.show(target))[0] == 403
                assert (await denied.answer("undo", target))[0] == 403
        assert window.review.text("a.py") == AFTER
        assert (await admin.ask("GET", "/api/windows/nosuch/review"))[0] == 404


@pytest.mark.parametrize(
    "body",
    [
        {"answer": "burn", "files": [{"file": "a", "version": "b"}]},
        {"answer": "keep", "files": []},
        {"answer": "keep", "files": [{"file": "../x", "version": "b"}]},
        {"answer": "keep", "files": [{"file": "a", "version": "b"}] * (MAX_FILES + 1)},
        {"answer": "keep", "files": [{"file": "a", "version": "b", "hunk": 0}] * 2},
    ],
)
async def test_a_wrong_answer_does_not_reach_the_window(
    place: RunningHub, window: FakeWindow, body: dict[str, Any]
) -> None:
    async with Client(place.url) as admin:
        review = Reviewing(place, admin, window.id)
        window.review.wrote("a.py", BEFORE, AFTER)
        await review.changed()
        assert (await admin.ask("POST", review.where, body))[0] in (400, 422)
        assert window.review.text("a.py") == AFTER


async def test_the_list_of_changes_disappears_and_returns_with_its_window(
    place: RunningHub, tmp_path: Path
) -> None:
    async with Client(place.url) as admin:
        async with place.fake_window(tmp_path) as window:
            review = Reviewing(place, admin, window.id)
            window.review.wrote("a.py", BEFORE, AFTER)
            await review.changed()
            target = await review.target("a.py")
            place.hub._sockets._close_transport(
                place.hub._registry.active_host(WindowId(window.id)).sid
            )
            await review.changed()
            assert await review.files() == []
            await review.changed()
            assert await review.target("a.py") == target
        await review.changed()
        assert await review.files() == []
        status, told = await review.answer("undo", target)
        assert (status, told["code"]) == (409, "edit.conflict")


def listed(**more: Any) -> dict[str, Any]:
    file = {"id": "a", "version": "b", "name": "x", "agents": [], "change": "changed"}
    return {"files": [{**file, "hunks": 1, "added": 1, "removed": 1, **more}], "more": 0}


@pytest.mark.parametrize(
    "wrong",
    [
        "x",
        {"files": "x"},
        {"files": listed()["files"] * (MAX_FILES + 1)},
        {**listed(), "more": -1},
        listed(id="../../x"),
        listed(name="x" * 1001),
        listed(name="x", other="x" * MAX_LIST_BYTES),
        listed(agents=["x"] * 21),
        listed(hunks=10**10),
        listed(hunks="1"),
        listed(change="burnt"),
    ],
)
async def test_a_malformed_list_of_changes_is_rejected_and_clears_the_earlier_one(
    place: RunningHub, wrong: Any
) -> None:
    hostile = HostileWindow(place, await session_token(place))
    async with hostile.socket, Client(place.url) as admin:
        await hostile.register(name="x")
        review = Reviewing(place, admin, hostile.id)
        await hostile.socket.emit("review.changed", listed())
        await review.changed()
        assert len(await review.files()) == 1
        await hostile.socket.emit("review.changed", wrong)
        await review.changed()
        assert await review.files() == []


async def test_control_characters_of_a_window_are_escaped(place: RunningHub) -> None:
    forged = "x\n\x1b[2J\u202e"
    hostile = HostileWindow(place, await session_token(place))
    hunk = {"line": 1, "removed": [forged], "added": [], "is_whole": True}
    replies: list[Any] = [
        {"value": {"hunks": [hunk], "more": 0}},
        {"error": {"code": "access.denied", "message": forged * 1000}},
        {"value": {"hunks": [{**hunk, "removed": ["x" * 10_001]}], "more": 0}},
        {"value": {"hunks": [hunk] * 201, "more": 0}},
        {"value": None},
        "nonsense",
    ]

    async def show(_: Any) -> Any:
        return replies.pop(0)

    hostile.socket._handlers = {**hostile.socket._handlers, "review.show": show}
    async with hostile.socket, Client(place.url) as admin:
        await hostile.register(name="x")
        review = Reviewing(place, admin, hostile.id)
        await hostile.socket.emit("review.changed", listed(name=forged, agents=[forged]))
        await review.changed()
        files = await review.files()
        target = await review.target(files[0]["name"])
        answers = [await review.show(target) for _ in range(len(replies))]
    assert [status for status, _ in answers] == [200, 409, 409, 409, 409, 409]
    texts = json.dumps([files, answers], ensure_ascii=False)
    assert not re.search(r"[\x00-\x1f\u202e]|\\n|\\u00", texts.replace(r"\\", "/"))
    assert len(answers[1][1]["message"]) < 5000


async def test_a_window_that_leaves_ends_the_wait_for_its_answer(place: RunningHub) -> None:
    hostile = HostileWindow(place, await session_token(place))
    asked = asyncio.Event()

    async def never(_: Any) -> Any:
        asked.set()
        await asyncio.Event().wait()

    hostile.socket._handlers = {**hostile.socket._handlers, "review.answer": never}
    async with hostile.socket, Client(place.url) as admin:
        await hostile.register(name="x")
        review = Reviewing(place, admin, hostile.id)
        await hostile.socket.emit("review.changed", listed())
        await review.changed()
        target = await review.target("x")
        answering = asyncio.create_task(review.answer("undo", target))
        await asked.wait()
        await hostile.socket.aclose()
        status, told = await answering
    assert (status, told["code"]) == (504, "outcome.unknown")
    assert "lost its connection" in told["message"]
