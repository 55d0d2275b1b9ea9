"""What a hub does for the windows of sessions, with windows that are none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bascule.core.actions import Action, CmdRun
from bascule.core.identity import EventId
from bascule.core.observations import Error
from bascule.core.sessions import SessionId
from bascule.core.windows import WindowId
from bascule.hub.proxy import SessionEndpoint
from bascule.runtime import VSCodeRuntime
from bascule.wire import decode_action, encode_action

from .serving import SessionHub, SessionsClient, open_session_hub

pytestmark = pytest.mark.slow


@pytest.fixture
async def hub() -> AsyncIterator[SessionHub]:
    async with open_session_hub() as made:
        yield made


@pytest.fixture
async def admin(hub: SessionHub) -> AsyncIterator[SessionsClient]:
    async with SessionsClient(hub.url) as asker:
        yield asker


async def test_an_action_in_its_window_resumes_a_paused_session(
    hub: SessionHub, admin: SessionsClient, tmp_path: Path
) -> None:
    session = await admin.ready()
    token = await hub.token("inside", "session", session_id=session)
    async with hub.fake_window(tmp_path, token=token) as window:
        await admin.must("POST", f"/api/sessions/{session}/pause")
        event = encode_action(CmdRun("echo here"))
        seen = await admin.must("POST", f"/api/vscode/instance/{window.id}/actions", event)

    assert seen["content"] == "here\n"
    assert (await admin.show(session))["state"] == "ready"


async def test_a_valid_action_of_a_session_is_decoded_once_and_the_window_of_a_runtime_is_checked(
    hub: SessionHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[str] = []

    def counting(event: Mapping[str, Any]) -> Action:
        decoded.append(event["action"])
        return decode_action(event)

    monkeypatch.setattr("bascule.hub.sockets.decode_action", counting)
    windows = hub.hub.sessions.windows
    async with hub.fake_window(tmp_path) as fake:
        window = hub.hub._registry.window(WindowId(fake.id))
        for command in ("echo one", "echo two"):
            action = CmdRun(command)
            seen = await windows.act(hub.identity, window, action, encode_action(action))
            assert seen.content == f"{command.removeprefix('echo ')}\n"
        assert decoded == []
        async with VSCodeRuntime(hub.url, hub.agent, window=fake.id) as runtime:
            await runtime.run("true")
        assert decoded == ["run"]


async def test_a_failed_action_in_a_sessions_window_is_an_observation(
    hub: SessionHub, tmp_path: Path
) -> None:
    async with hub.fake_window(tmp_path) as fake:
        window = hub.hub._registry.window(WindowId(fake.id))
        action = replace(CmdRun("true"), id=EventId("no UUID"))
        seen = await hub.hub.sessions.windows.act(
            hub.identity, window, action, encode_action(action)
        )
    assert isinstance(seen, Error)
    assert seen.error_id == "action.invalid"


async def test_without_vscode_a_session_that_acts_in_it_fails_and_says_why(
    hub: SessionHub, admin: SessionsClient
) -> None:
    made = await admin.create({"runtime": "vscode"})
    with pytest.raises(AssertionError, match="opening its window: This session has no VS Code"):
        await admin.reaches(made["id"], "ready")
    session = await admin.ready()
    status, answer = await admin.ask("POST", f"/api/sessions/{session}/window")
    assert (status, answer["code"]) == (400, "capability.missing")
    assert await hub.hub.sessions.ports(hub.identity, SessionId(session)) == []


async def test_programs_know_the_base_path_of_their_apps_and_may_keep_it(
    hub: SessionHub, admin: SessionsClient
) -> None:
    session = await admin.ready({"apps": [{}, {"keeps_prefix": True}]})
    said = await admin.run(session, "echo $APP_BASE_PATH_1 $APP_BASE_PATH_2")
    places = [SessionEndpoint("apps", session, n) for n in (98, 99)]
    assert said.split() == [hub.hub.addresses.keyed_path(each) + "/" for each in places]
    targets = [
        await hub.hub.proxy.access_control._routes.target(each, is_visit=True) for each in places
    ]
    assert [target.keeps_prefix for target in targets] == [False, True]
    assert (await admin.show(session))["apps"] == [{"keeps_prefix": False}, {"keeps_prefix": True}]
