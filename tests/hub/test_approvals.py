"""Questions of a window travel to whoever may answer them, and to nobody else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from bascule.link.socketio import SocketClient
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings
from bascule.testing.window import FakeWindow

from .serving import ADMIN, RunningHub

QUESTION = {"id": "q", "cause": "a", "agent": "helper", "kind": "run", "summary": "run make"}


class QuestionListener:
    """A socket on /runtime that keeps what it hears of questions."""

    def __init__(self, url: str, token: str) -> None:
        self.heard: asyncio.Queue[Any] = asyncio.Queue()

        async def hear(data: Any) -> None:
            self.heard.put_nowait(data)

        self.socket = SocketClient(
            url,
            token,
            namespace="/runtime",
            client="page",
            handlers={"approval.requested": hear, "approval.answered": hear},
        )


async def test_only_an_admin_sees_and_answers_approval_requests(tmp_path: Path) -> None:
    answers: asyncio.Queue[Any] = asyncio.Queue()

    async def answered(data: Any) -> None:
        answers.put_nowait(data)

    settings = SandboxSettings(shells=ShellSettings(working_dir=tmp_path))
    async with RunningHub() as hub:
        window = FakeWindow(hub.url, hub.window, settings)
        window._socket._handlers = {**window._socket._handlers, "approval.answered": answered}
        admin, agent = QuestionListener(hub.url, ADMIN), QuestionListener(hub.url, hub.agent)
        async with window, admin.socket, agent.socket:
            await window.connect()
            await admin.socket.connect()
            await agent.socket.connect()
            await window._socket.emit("approval.requested", QUESTION)
            asked = await admin.heard.get()
            assert asked == {**QUESTION, "window_id": window.id}

            yes = {"id": "q", "window_id": window.id, "answer": "workspace"}
            await agent.socket.emit("approval.answered", {**yes, "by": "admin"})
            await agent.socket.call("oh_cancel", {"id": "x"}, timeout=5)  # it was heard by now
            await admin.socket.emit("approval.answered", {**yes, "answer": "once", "by": "me"})
            assert await answers.get() == {"id": "q", "answer": "once", "by": "admin"}
            assert answers.empty()
            assert agent.heard.empty()
