"""What a hub's metrics count, seen as Prometheus sees it."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy.exc import SQLAlchemyError

from bascule.core.errors import SandboxStartFailed
from bascule.hub.database.address import with_driver
from bascule.hub.database.store import SqlStore
from bascule.hub.event_loop_lag import EventLoopLag
from bascule.hub.metrics import HubMetrics, HubState
from bascule.runtime import CloudRuntime

from .postgres import postgres
from .serving import ADMIN, Client, RunningHub
from .sessions.serving import SessionHub, SessionsClient, kill_server, open_session_hub

pytestmark = pytest.mark.slow


class Scrape:
    """The samples of one answer."""

    def __init__(self, text: bytes) -> None:
        self._samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text.decode())
            for sample in family.samples
        }

    def __call__(self, name: str, **labels: str) -> float | None:
        return self._samples.get((f"bascule_hub_{name}", frozenset(labels.items())))


async def scrape(hub: RunningHub) -> Scrape:
    async with Client(hub.url) as admin:
        status, text = await admin.ask("GET", "/metrics")
    assert status == 200
    return Scrape(text)


async def failed(client: SessionsClient, session: str) -> None:
    """Wait until the session has failed."""
    async for name, data in client.events(session):
        if name == "state" and data["state"] == "failed":
            return


@pytest.fixture
async def hub() -> AsyncIterator[SessionHub]:
    async with open_session_hub() as hub:
        yield hub


async def test_a_hub_with_sessions_counts_what_operators_need(hub: SessionHub) -> None:
    before = await scrape(hub)
    assert before("sessions", state="ready") == 0
    assert before("spawner_usable", spawner="plain") == 1
    assert before("tokens", scope="agent") == before("tokens", scope="window") == 1
    assert before("database_up") == 1
    assert (before("reconcile_end_timestamp_seconds") or 0) > 1e9
    assert before("records_bytes") == 0

    async with SessionsClient(hub.url) as client:
        session = await client.ready()
        async with CloudRuntime(hub.url, ADMIN, session_id=session) as runtime:
            assert (await runtime.run("echo hi")).content.strip() == "hi"
            running = await scrape(hub)
        assert running("sessions", state="ready") == 1
        assert running("session_start_seconds_count", spawner="plain") == 1
        assert (running("proxy_requests_total", endpoint="sandbox", status="2xx") or 0) >= 2
        assert (running("proxy_bytes_total", direction="to_client") or 0) > 100
        assert (running("proxy_bytes_total", direction="to_session") or 0) > 100
        assert (running("database_seconds_count", operation="write") or 0) > 3
        assert (running("database_seconds_count", operation="read") or 0) > 0
        assert (running("database_connections", state="idle") or 0) >= 1

        kill_server(hub.directory / "run" / session)
        await failed(client, session)
        body = {"workspace": {"kind": "git", "url": "https://127.0.0.1:1/nothing.git"}}
        broken = (await client.create(body))["id"]
        await failed(client, broken)
    after = await scrape(hub)
    assert after("sessions", state="failed") == 2
    assert after("session_failures_total", phase="running", cause="sandbox_ended") == 1
    assert after("session_failures_total", phase="start", cause="workspace.clone_failed") == 1
    assert after("session_start_seconds_count", spawner="plain") == 1


async def test_sign_ins_are_counted_by_method_and_outcome() -> None:
    async with RunningHub() as hub, aiohttp.ClientSession() as browser:
        headers = {"Host": hub.page_url.partition("://")[2]}
        address = f"{hub.url}/sign-in"
        for token in (ADMIN, "wrong", hub.window):
            async with browser.post(address, data={"token": token}, headers=headers):
                pass
        async with Client(hub.url) as admin:
            _, link = await admin.ask("POST", "/api/sign-in", {"next": "/"})
        code = link["url"].partition("code=")[2]
        for _ in range(2):  # it works once
            async with browser.post(address, data={"code": code}, headers=headers):
                pass
        found = await scrape(hub)
    assert found("sign_ins_total", method="token", outcome="ok") == 1
    assert found("sign_ins_total", method="token", outcome="refused") == 2
    assert found("sign_ins_total", method="link", outcome="ok") == 1
    assert found("sign_ins_total", method="link", outcome="refused") == 1


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres() as address:
        yield address


async def test_the_metrics_answer_while_the_database_does_not(server: str) -> None:
    place = Path(server.partition("host=")[2])
    main = int((place / "data/postmaster.pid").read_text().split()[0])
    async with RunningHub(database_url=with_driver(server)) as hub:
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        frozen = [main, *map(int, children)]
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            found = await scrape(hub)
        finally:
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)
        assert found("database_up") == 0
        assert found("tokens", scope="agent") is None
        assert found("sessions", state="ready") == 0


async def test_a_failed_transaction_is_counted_and_a_taken_name_is_not(tmp_path: Path) -> None:
    counted: list[tuple[str, bool]] = []

    def on_transaction(operation: str, seconds: float, *, failed: bool) -> None:
        assert seconds >= 0
        counted.append((operation, failed))

    async with SqlStore(
        f"sqlite+aiosqlite:///{tmp_path}/db", on_transaction=on_transaction
    ) as store:
        await store.open()
        await store.list_users()
        assert counted == [("read", False)]
        with closing(sqlite3.connect(tmp_path / "db")) as other, other:
            other.execute("DROP TABLE users")
        with pytest.raises(SQLAlchemyError):
            await store.list_users()
        assert counted[1:] == [("read", True)]


async def test_a_blocked_event_loop_is_measured() -> None:
    lags: list[float] = []
    measured = asyncio.Event()

    def report(seconds: float) -> None:
        lags.append(seconds)
        measured.set()

    lag = EventLoopLag(report, interval=0.01)
    lag.start()
    await measured.wait()
    measured.clear()
    blocked_until = time.monotonic() + 0.2
    while time.monotonic() < blocked_until:
        pass
    await measured.wait()
    lag.stop()
    assert max(lags) >= 0.15


def test_label_values_of_strangers_make_no_series() -> None:
    metrics = HubMetrics()
    for number in range(50):
        metrics.count_action(f"kind-{number}", f"outcome-{number}", 0.1)

        class Strange(SandboxStartFailed):
            code = f"code.{number}"

        metrics.count_failed_start(Strange("x"))
        metrics.count_failed_start(RuntimeError("x"))
    state = HubState(
        windows={},
        runtimes=0,
        pending_actions=0,
        sessions={},
        usable_spawners={},
        open_questions={},
        proxy_connections={},
        proxy_requests={},
        proxy_bytes={},
        database_connections={},
        has_database=True,
    )
    found = Scrape(metrics.text(state))
    assert found("actions_total", kind="other", outcome="other") == 50
    assert found("session_failures_total", phase="start", cause="other") == 50
    assert found("session_failures_total", phase="start", cause="internal") == 50
    assert b"kind-7" not in metrics.text(state)
