"""`CloudRuntime` on a real hub, whose sessions are plain sandboxes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from bascule.core.errors import NoSuchSession, SandboxStartFailed, UsageError
from bascule.runtime import CloudRuntime, Verbs
from bascule.sandbox.settings import SandboxSettings
from tests.contracts.runtime import Make, RuntimeSuite
from tests.hub.serving import ADMIN
from tests.hub.sessions.serving import SessionHub, open_session_hub

MISSING = {
    "test_a_silent_command_returns_early_unless_it_is_blocking": "soft_timeout",
    "test_reading_a_dropped_log_range_reports_what_is_left": "log_limit",
}
"""Tests with settings of the sandbox itself, which a session is not told."""


class CloudWithHub(CloudRuntime):
    """A runtime that brings its hub along; the test's workspace is a folder of the host."""

    def __init__(self, settings: SandboxSettings, **keywords: Any) -> None:
        folder = settings.shells.working_dir
        self._folder, self._keywords = folder, keywords
        self._ground = AsyncExitStack()
        super().__init__("http://127.0.0.1:1", "set when it is known")

    async def connect(self) -> None:
        if self._inner is not None:
            return
        roots = (self._folder.parent,)
        hub = await self._ground.enter_async_context(open_session_hub(workspace_roots=roots))
        session = {"workspace": {"kind": "folder", "folder": str(self._folder)}}
        CloudRuntime.__init__(self, hub.url, ADMIN, session=session, remove=True, **self._keywords)
        await super().connect()

    async def aclose(self) -> None:
        await super().aclose()
        await self._ground.aclose()


@pytest.mark.slow
class TestCloud(RuntimeSuite):
    @pytest.fixture(autouse=True)
    def only_what_a_session_is_told(self, request: pytest.FixtureRequest) -> None:
        name = request.node.originalname
        if name in MISSING:
            pytest.skip(f"a session is not told: {MISSING[name]}")

    @pytest.fixture
    def make(self) -> Make:
        def make(settings: SandboxSettings, **keywords: Any) -> Verbs:
            return CloudWithHub(settings, **keywords)

        return make


@pytest.fixture
async def hub() -> AsyncIterator[SessionHub]:
    async with open_session_hub() as made:
        yield made


@pytest.mark.slow
async def test_a_cloud_session_is_created_attached_to_and_removed(hub: SessionHub) -> None:
    stages: list[str] = []
    async with CloudRuntime(hub.url, hub.agent, on_stage=stages.append) as runtime:
        await runtime.run("echo kept > f; word=kept")
        session_id = runtime.session_id
        assert runtime.vscode_url == f"{hub.url}/vscode/{session_id}/"
        assert await runtime.web_hosts() == {}
    assert "preparing" in stages
    await hub.hub.sessions.stop(hub.identity, hub.session(session_id))
    async with CloudRuntime(hub.url, hub.agent, session_id=session_id) as runtime:
        assert (await runtime.run("cat f")).content == "kept\n"
    async with CloudRuntime(hub.url, hub.agent, remove=True) as other:
        assert other.session_id != session_id
    assert [each.id for each in hub.hub.sessions.list(hub.identity)] == [session_id]


@pytest.mark.slow
async def test_connecting_reports_a_session_that_cannot_start_or_does_not_exist(
    hub: SessionHub,
) -> None:
    source = {"kind": "git", "url": "https://127.0.0.1:1/x.git"}
    failing = CloudRuntime(hub.url, hub.agent, session={"workspace": source}, remove=True)
    with pytest.raises(SandboxStartFailed, match="filling the workspace"):
        await failing.connect()
    await failing.aclose()
    assert hub.hub.sessions.list(hub.identity) == []
    unknown = CloudRuntime(hub.url, hub.agent, session_id="nobody0nobody0nobody0nobo")
    with pytest.raises(NoSuchSession):
        await unknown.connect()
    await unknown.aclose()


async def test_a_cloud_runtime_must_be_connected_first() -> None:
    runtime = CloudRuntime("http://127.0.0.1:1", "token")
    with pytest.raises(UsageError, match="not connected"):
        runtime.vscode_url  # noqa: B018
    await runtime.aclose()
