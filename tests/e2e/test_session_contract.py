"""The runtime contract, in a session of a hub that does its actions in its own VS Code window."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bascule.cli.loop import LoopThread
from bascule.core.editor_actions import VscodeCommand
from bascule.runtime import CloudRuntime, Verbs
from bascule.sandbox.settings import SandboxSettings
from tests.contracts.runtime import Make, RuntimeSuite
from tests.hub.serving import ADMIN
from tests.hub.sessions.serving import SessionHub, open_session_hub

from .session_ground import installed_vscode

MISSING = {
    "test_a_silent_command_returns_early_unless_it_is_blocking": "soft_timeout",
    "test_invalid_utf8_bytes_are_kept_exactly_in_the_log": "log",
    "test_output_past_the_limit_keeps_head_and_tail_and_the_log_keeps_all": "log",
    "test_a_log_is_searched": "log",
    "test_reading_a_dropped_log_range_reports_what_is_left": "log",
    "test_an_unknown_shell_has_no_log": "log",
}
"""Tests of what a window has not, or a session is not told."""


@dataclass(frozen=True)
class Session:
    hub: SessionHub
    id: str
    folder: Path
    loop: LoopThread
    numbers: Iterator[int]

    def agent(self) -> str:
        """Of one that nobody has seen before: its shells are new."""
        name = f"agent-{next(self.numbers)}"
        return self.loop.start(self.hub.token(name, "agent")).result()


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("session") / "workspace"
    folder.mkdir()
    settings: dict[str, Any] = {"workspace_roots": (folder.parent,), "probe_timeout": 20.0}
    with (
        LoopThread() as loop,
        loop.hold(open_session_hub(vscode=installed_vscode(), **settings)) as hub,
    ):
        wanted = {"runtime": "vscode", "workspace": {"kind": "folder", "folder": str(folder)}}
        with loop.hold(CloudRuntime(hub.url, ADMIN, session=wanted)) as runtime:
            session_id = runtime.session_id
        allow_commands(hub, session_id)
        yield Session(hub, session_id, folder, loop, itertools.count())
        loop.start(hub.hub.sessions.remove(hub.identity, hub.session(session_id))).result()


def allow_commands(hub: SessionHub, session_id: str) -> None:
    """As a person may set it: what VS Code may be told to do besides."""
    file = hub.directory / "sessions" / session_id / "state/vscode/Machine/settings.json"
    told = json.loads(file.read_text())
    told["bascule.allowedCommands"] = ["workbench.action.terminal.killAll"]
    file.write_text(json.dumps(told))


class _InItsWindow(CloudRuntime):
    """Closes its terminals when it leaves: a window has room for so many."""

    async def aclose(self) -> None:
        if self._inner is not None and self._window is not None and not self._window._closed:
            await self.act(VscodeCommand("workbench.action.terminal.killAll"))
        await super().aclose()


class TestInItsWindow(RuntimeSuite):
    commands_in_a_row = 100  # every one is drawn
    rounds_of_writing = 1  # every one is drawn and saved, which takes its time

    @pytest.fixture(autouse=True)
    def only_what_it_can_do(self, request: pytest.FixtureRequest) -> None:
        name = request.node.originalname
        if name in MISSING:
            pytest.skip(f"the window of a session has no {MISSING[name]}")

    @pytest.fixture
    def workspace(self, session: Session) -> Iterator[Path]:
        yield session.folder
        for entry in session.folder.iterdir():
            is_directory = entry.is_dir() and not entry.is_symlink()
            shutil.rmtree(entry) if is_directory else entry.unlink()

    @pytest.fixture
    def make(self, session: Session) -> Make:
        self.session = session

        def make(_settings: SandboxSettings, **keywords: Any) -> Verbs:
            hub = session.hub
            return _InItsWindow(hub.url, session.agent(), session_id=session.id, **keywords)

        return make

    async def close_the_place(self, runtime: Verbs) -> None:
        """What the window's shells started must not outlive VS Code."""
        await CloudRuntime.aclose(runtime)  # type: ignore[arg-type]
        await asyncio.wrap_future(self.session.loop.start(self._restart_vscode()))

    async def _restart_vscode(self) -> None:
        hub, session_id = self.session.hub, self.session.hub.session(self.session.id)
        line, _ = await hub.hub.sessions.enter(session_id)
        await line.stop_vscode()
