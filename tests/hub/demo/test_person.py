"""The scripted person of the demo answers questions and reviews changes of one window."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bascule.core.identity import EventId
from bascule.core.sessions import SessionId
from bascule.core.windows import WindowId
from bascule.hub.demo.person import PERSON, DemoPerson
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings
from bascule.testing.window import FakeWindow
from tests.hub.serving import RunningHub

BEFORE = "1\n2\n3"
AFTER = "one\n2\nthree"


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    async with RunningHub(tmp_path / "state", heartbeat=30.0) as hub:
        yield hub


@pytest.fixture
def answers() -> asyncio.Queue[Any]:
    """The answers that reach the window."""
    return asyncio.Queue()


@pytest.fixture
async def window(
    hub: RunningHub, tmp_path: Path, answers: asyncio.Queue[Any]
) -> AsyncIterator[FakeWindow]:
    async def answered(data: Any) -> None:
        answers.put_nowait(data)

    settings = SandboxSettings(shells=ShellSettings(working_dir=tmp_path))
    window = FakeWindow(hub.url, hub.window, settings)
    window._socket._handlers = {**window._socket._handlers, "approval.answered": answered}
    async with window:
        await window.connect()
        yield window


@pytest.fixture
def person(hub: RunningHub, window: FakeWindow) -> DemoPerson:
    sockets = hub.hub._sockets
    return DemoPerson(
        SessionId("demo"),
        WindowId(window.id),
        owner="admin",
        sessions=hub.hub.sessions,
        sockets=sockets,
        changes=sockets._changes,
    )


async def test_the_person_answers_the_question_about_one_action(
    hub: RunningHub, window: FakeWindow, person: DemoPerson, answers: asyncio.Queue[Any]
) -> None:
    asked = asyncio.create_task(person.question(EventId("second")))
    for name in ("first", "second"):
        sent = {"id": f"about {name}", "cause": name, "choices": ["once", "always", "deny"]}
        await window._socket.emit("approval.requested", sent)

    question = await asked

    assert await person.answer(question, "always")
    assert await answers.get() == {"id": "about second", "answer": "always", "by": PERSON}
    [left] = hub.hub._sockets.approvals.pending()
    assert left["id"] == "about first"
    assert not await person.answer(question, "always")  # somebody has answered before


async def test_the_demo_person_waits_for_changes_keeps_one_and_undoes_the_other(
    window: FakeWindow, person: DemoPerson
) -> None:
    reviewing = asyncio.create_task(person.review("a.py", "keep", line="one"))
    window.review.wrote("b.py", BEFORE, AFTER)
    window.review.wrote("a.py", BEFORE, AFTER)
    await reviewing
    await person.review("a.py", "undo", line="three")
    assert window.review.text("a.py") == "one\n2\n3"
    assert window.review.text("b.py") == AFTER


async def test_the_demo_person_reloads_a_stale_list_of_changes(
    hub: RunningHub, window: FakeWindow, person: DemoPerson
) -> None:
    listed = asyncio.Event()
    hub.hub._sockets._changes.subscribe(lambda *_: listed.set())
    window.review.wrote("a.py", BEFORE, AFTER)
    await listed.wait()
    # The file has another text, and the window has not sent its new list yet.
    window.review.files["a.py"].text = ["zero", "one", "2", "three"]
    refused = asyncio.Event()
    answer = window.review.answer

    def refusing(request: Any) -> object:
        reply = answer(request)
        if isinstance(reply, dict) and "error" in reply:
            refused.set()
        return reply

    window.review.answer = refusing  # type: ignore[method-assign]
    reviewing = asyncio.create_task(person.review("a.py", "keep"))
    await refused.wait()
    assert not reviewing.done()
    window.review.wrote("a.py", BEFORE, "zero\none\n2\nthree")
    await reviewing
    assert window.review.listed()["files"] == []
