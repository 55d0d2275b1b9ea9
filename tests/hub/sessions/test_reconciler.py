"""The look at all sessions: idle ones are paused, then stopped; trouble with one is its own."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from bascule.core.actions import CmdRun
from bascule.core.errors import InvalidState, MissingTool
from bascule.core.sessions import RunningSandbox, SessionId, SessionSpec, SessionState
from bascule.hub import HubSettings, Identity
from bascule.hub.accounts.rows import AuditFilter
from bascule.hub.database.address import sqlite_address
from bascule.hub.database.store import SqlStore
from bascule.hub.proxy import SessionEndpoint
from bascule.hub.registry import Registry
from bascule.hub.sessions.routes import SessionRoutes
from bascule.hub.sessions.service import Sessions
from bascule.hub.sessions.session_request import SessionRequest
from bascule.hub.sessions.windows import SessionWindows
from bascule.hub.sockets import Sockets
from bascule.hub.switchboard import Switchboard
from bascule.runtime.spawn.plain import PlainSpawner
from bascule.serving.asgi import App, Receive, Scope, Send

pytestmark = pytest.mark.slow
ADMIN = Identity(name="admin", owner="admin", scope="admin")


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class FlakySpawner(PlainSpawner):
    """Cannot always tell what runs, as an engine that is being restarted."""

    is_silent = False

    async def running(self) -> Sequence[RunningSandbox]:
        if self.is_silent:
            raise MissingTool("the engine does not answer")
        return await super().running()


def _nobody(_: Identity) -> App:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("no window comes in these tests")

    return app


class Rig:
    def __init__(self, directory: Path) -> None:
        self.clock = Clock()
        self.spawner = FlakySpawner(directory / "run", allow_unisolated=True)
        self.store = SqlStore(sqlite_address(directory / "hub.sqlite"))
        settings = HubSettings(
            admin_token="t", state_dir=directory, idle_pause=100.0, idle_stop=1000.0
        )
        registry = Registry()
        switchboard = Switchboard(limit=1, on_end=lambda *_: None)
        sockets = Sockets(settings, self.store, registry=registry, switchboard=switchboard)
        self.sessions = Sessions(
            settings,
            self.store,
            {"plain": self.spawner},
            make_hub_app=_nobody,
            windows=SessionWindows(sockets, registry),
            clock=self.clock,
        )

    async def ready(self) -> SessionId:
        made = await self.sessions.create(ADMIN, SessionRequest(spec=SessionSpec(spawner="plain")))
        async for event in self.sessions.events(made.id):
            assert event is None or event.data.get("state") != "failed", event
            if event is not None and event.data.get("state") == "ready":
                return made.id
        raise AssertionError("it never became ready")

    def state(self, session_id: SessionId) -> SessionState:
        return self.sessions.get(ADMIN, session_id).state

    async def run(self, session_id: SessionId, command: str) -> None:
        await self.sessions.act(ADMIN, session_id, CmdRun(command))


@pytest.fixture
def directory() -> Path:
    """Short, for sockets; the rig removes it."""
    return Path(tempfile.mkdtemp(prefix="bsc-"))


@pytest.fixture
async def rig(directory: Path) -> AsyncIterator[Rig]:
    rig = Rig(directory)
    await rig.store.open()
    await rig.sessions.open()
    yield rig
    rig.spawner.is_silent = False
    for row in rig.sessions.list(ADMIN):
        await rig.sessions.remove(ADMIN, row.id)
    await rig.sessions.aclose()
    await rig.store.aclose()
    await asyncio.to_thread(shutil.rmtree, directory)


async def test_an_idle_session_is_paused_then_stopped_and_resumed_by_an_action(
    rig: Rig,
) -> None:
    session = await rig.ready()
    await rig.sessions.reconcile()
    rig.clock.now += 99
    await rig.sessions.reconcile()
    assert rig.state(session) == "ready"
    rig.clock.now += 1
    await rig.sessions.reconcile()
    assert rig.state(session) == "paused"
    await rig.run(session, "true")
    assert rig.state(session) == "ready"
    rig.clock.now += 100
    await rig.sessions.reconcile()
    rig.clock.now += 1000
    await rig.sessions.reconcile()
    assert rig.state(session) == "stopped"
    told = await rig.store.list_audit(AuditFilter(session_id=session))
    by_the_hub = [each.verb for each in told if each.who == "hub"]
    assert by_the_hub == ["stop", "pause", "resume", "pause"]


async def test_a_session_that_does_not_report_activity_becomes_idle(
    rig: Rig, directory: Path
) -> None:
    """It could stay awake for ever by stopping its own server."""
    session = await rig.ready()
    (directory / "run" / session / "sandbox.sock").unlink()
    await rig.sessions.reconcile()
    assert rig.state(session) == "ready"
    rig.clock.now += 150.0
    await rig.sessions.reconcile()
    assert rig.state(session) == "paused"


async def test_a_session_that_works_is_not_idle(rig: Rig) -> None:
    session = await rig.ready()
    await rig.run(session, "(setsid bash -c 'while :; do :; done' >/dev/null 2>&1 &)")
    await rig.sessions.reconcile()
    await rig.run(session, "for ((i = 0; i < 300000; i++)); do :; done")
    rig.clock.now += 8  # it has used far more than a fiftieth of that
    await rig.sessions.reconcile()
    rig.clock.now += 95
    await rig.sessions.reconcile()
    assert rig.state(session) == "ready"


async def test_open_pages_and_idle_servers_do_not_count_as_activity(rig: Rig) -> None:
    session = await rig.ready()
    routes, app = SessionRoutes(rig.sessions), SessionEndpoint("apps", session, 0)
    await rig.run(session, "(setsid python3 -m http.server 0 >/dev/null 2>&1 &)")
    await rig.run(session, "until pgrep -f http.server >/dev/null; do :; done")
    await rig.sessions.reconcile()
    for _ in range(5):  # the first of them sees the server's own start, which is work
        rig.clock.now += 60
        if rig.state(session) == "ready":
            await routes.target(app, is_visit=False)
        await rig.sessions.reconcile()
    assert rig.state(session) == "paused"
    with pytest.raises(InvalidState, match="resume it first"):
        await routes.target(app, is_visit=False)
    assert rig.state(session) == "paused"
    await routes.target(app, is_visit=True)
    assert rig.state(session) == "ready"


async def test_an_unresponsive_engine_does_not_fail_sessions(rig: Rig) -> None:
    session = await rig.ready()
    rig.spawner.is_silent = True
    await rig.sessions.reconcile()
    assert rig.state(session) == "ready"


async def test_an_error_in_one_session_does_not_stop_reconciling_the_others(rig: Rig) -> None:
    one, two = await rig.ready(), await rig.ready()
    await asyncio.to_thread(rig.sessions._lifecycle.vault.remove, one)
    await rig.sessions._lifecycle._drop_client(one)
    await rig.sessions._lifecycle._watches.cancel(one)
    await rig.sessions.reconcile()
    rig.clock.now += 100
    await rig.sessions.reconcile()
    assert rig.state(two) == "paused"
