"""What a hub does for the windows of sessions, with windows that are none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bascule.core.actions import CmdRun
from bascule.core.sessions import SessionId
from bascule.hub.proxy import SessionEndpoint
from bascule.wire import encode_action

from .serving import Asker, SessionPlace, place

pytestmark = pytest.mark.slow


@pytest.fixture
async def hub() -> AsyncIterator[SessionPlace]:
    async with place() as made:
        yield made


@pytest.fixture
async def admin(hub: SessionPlace) -> AsyncIterator[Asker]:
    async with Asker(hub.url) as asker:
        yield asker


async def test_an_action_in_its_window_resumes_a_paused_session(
    hub: SessionPlace, admin: Asker, tmp_path: Path
) -> None:
    session = await admin.ready()
    token = await hub.token("inside", "session", session_id=session)
    async with hub.fake_window(tmp_path, token=token) as window:
        await admin.must("POST", f"/api/sessions/{session}/pause")
        event = encode_action(CmdRun("echo here"))
        seen = await admin.must("POST", f"/api/vscode/instance/{window.id}/actions", event)

    assert seen["content"] == "here\n"
    assert (await admin.show(session))["state"] == "ready"


async def test_without_vscode_a_session_that_acts_in_it_fails_and_says_why(
    hub: SessionPlace, admin: Asker
) -> None:
    made = await admin.create({"runtime": "vscode"})
    with pytest.raises(AssertionError, match="opening its window: This session has no VS Code"):
        await admin.reaches(made["id"], "ready")
    session = await admin.ready()
    status, answer = await admin.ask("POST", f"/api/sessions/{session}/window")
    assert (status, answer["code"]) == (400, "capability.missing")
    assert await hub.hub.sessions.ports(hub.identity, SessionId(session)) == []


async def test_programs_know_the_base_path_of_their_apps_and_may_keep_it(
    hub: SessionPlace, admin: Asker
) -> None:
    session = await admin.ready({"apps": [{}, {"keeps_prefix": True}]})
    said = await admin.run(session, "echo $APP_BASE_PATH_1 $APP_BASE_PATH_2")
    places = [SessionEndpoint("apps", session, n) for n in (98, 99)]
    assert said.split() == [hub.hub.addresses.keyed(each) + "/" for each in places]
    targets = [
        await hub.hub.proxy.access_control._routes.target(each, is_visit=True) for each in places
    ]
    assert [target.keeps_prefix for target in targets] == [False, True]
    assert (await admin.show(session))["apps"] == [{"keeps_prefix": False}, {"keeps_prefix": True}]
