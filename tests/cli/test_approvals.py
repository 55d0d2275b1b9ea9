"""`bascule approvals`, with a hub and a window that asks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings
from bascule.testing.window import FakeWindow
from tests.hub.serving import Client, RunningHub

from .test_windows import client_environment, output

pytestmark = pytest.mark.slow

QUESTION = {
    "id": "3f2a0000-0000-4000-8000-000000000000",
    "cause": "a",
    "agent": "helper",
    "kind": "run",
    "summary": "run git log && make\u001b[2J",
    "detail": "git log && make\u001b[2J",
    "expires": "2126-01-01T00:00:00+00:00",
    "parts": [
        {"text": "git log", "verdict": "allow", "reason": "a rule allows `git log`"},
        {"text": "make", "verdict": "ask", "reason": "no rule allows it"},
    ],
    "proposals": [{"rule": ["make"], "text": "make"}],
    "choices": ["once", "always", "deny"],
}


@pytest.fixture
async def hub() -> AsyncIterator[RunningHub]:
    async with RunningHub() as place:
        yield place


class Asking:
    """A window that asks, and hears the answers."""

    def __init__(self, window: FakeWindow) -> None:
        self.window = window
        self.answers: asyncio.Queue[Any] = asyncio.Queue()
        handlers = {**window._socket._handlers, "approval.answered": self._answered}
        window._socket._handlers = handlers

    async def _answered(self, data: Any) -> None:
        self.answers.put_nowait(data)

    async def ask(self, hub: RunningHub, **fields: object) -> None:
        await self.window._socket.emit("approval.requested", {**QUESTION, **fields})
        async with Client(hub.url) as admin:
            while not (await admin.ask("GET", "/api/approvals"))[1]:
                pass  # the hub has not heard it yet


@pytest.fixture
async def asking(hub: RunningHub, tmp_path: Path) -> AsyncIterator[Asking]:
    settings = SandboxSettings(shells=ShellSettings(working_dir=tmp_path))
    asking = Asking(FakeWindow(hub.url, hub.window, settings))
    async with asking.window as window:
        await window.connect()
        yield asking


async def test_approvals_are_listed_and_shown_with_their_parts(
    hub: RunningHub, asking: Asking, tmp_path: Path
) -> None:
    env = client_environment(hub, tmp_path)
    assert (await output("approvals", env=env))[1] == "No action waits for approval.\n"
    await asking.ask(hub)
    _, table, _ = await output("approvals", env=env)
    _, as_json, _ = await output("approvals", "--json", env=env)
    status, shown, _ = await output("approvals", "show", "3f2a", env=env)

    assert table.splitlines()[1].split()[:4] == [
        "3f2a0000",
        "helper",
        "window",
        asking.window.id[:8],
    ]
    assert json.loads(as_json) == [{**QUESTION, "window_id": asking.window.id}]
    assert status == 0
    assert "\x1b" not in table + shown
    assert shown == (
        f"helper wants to run in window {asking.window.id[:8]}:\n"
        "git log && make\\x1b[2J\n"
        "  allow  git log\n"
        "         a rule allows `git log`\n"
        "  ask    make\n"
        "         no rule allows it\n"
        "`always` adds the rules: make\n"
        "Answers: once, always, deny\n"
    )


async def test_an_answer_reaches_the_window_once(
    hub: RunningHub, asking: Asking, tmp_path: Path
) -> None:
    env = client_environment(hub, tmp_path)
    await asking.ask(hub)
    status, out, _ = await output("approvals", "answer", "3f2a", "always", env=env)
    assert (status, out) == (0, "Answered 3f2a0000: always\n")
    heard = await asking.answers.get()
    assert heard == {"id": QUESTION["id"], "answer": "always", "by": "admin"}
    status, _, err = await output("approvals", "answer", "3f2a", "once", env=env)
    assert status == 2
    assert "No waiting action has an id that begins with '3f2a'" in err
    async with Client(hub.url) as admin:
        where = f"/api/approvals/{asking.window.id}/{QUESTION['id']}"
        status, said = await admin.ask("POST", where, {"answer": "once"})
    assert (status, said["code"]) == (409, "approval.answered")
    assert asking.answers.empty()


async def test_an_answer_that_is_not_offered_is_rejected(
    hub: RunningHub, asking: Asking, tmp_path: Path
) -> None:
    env = client_environment(hub, tmp_path)
    await asking.ask(hub)
    status, _, err = await output("approvals", "answer", "3f2a", "workspace", env=env)
    assert status == 2
    assert "allows the answers once, always, deny, not 'workspace'" in err
    assert json.loads((await output("approvals", "--json", env=env))[1])


async def test_no_agent_sees_or_answers_questions(
    hub: RunningHub, asking: Asking, tmp_path: Path
) -> None:
    await asking.ask(hub)
    env = client_environment(hub, tmp_path, hub.agent)
    for words in ((), ("answer", "3f2a", "once")):
        status, _, err = await output("approvals", *words, env=env)
        assert status != 0
        assert "admin" in err
    for token in (hub.agent, hub.window):
        async with Client(hub.url, token=token) as client:
            assert (await client.ask("GET", "/api/approvals"))[0] == 403
            where = f"/api/approvals/{asking.window.id}/{QUESTION['id']}"
            assert (await client.ask("POST", where, {"answer": "once"}))[0] == 403
    assert asking.answers.empty()
