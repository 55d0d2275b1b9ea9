"""`/livez` and `/readyz`: what an orchestrator is told, and by which names it may call."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from bascule.core.contracts import Spawner
from bascule.core.errors import StorageFailed
from bascule.hub.database.address import with_driver
from bascule.hub.probes import Readiness
from bascule.runtime.spawn.plain import PlainSpawner
from bascule.wire import from_json

from .postgres import postgres
from .serving import Client, RunningHub

GOOD = {"status": "ok", "failed": []}


async def probe(hub: RunningHub, path: str, *, host: str = "", **headers: str) -> tuple[int, Any]:
    """Ask with a raw request: clients set `Host` themselves."""
    reader, writer = await asyncio.open_connection("127.0.0.1", hub.port)
    lines = [f"GET {path} HTTP/1.1", f"Host: {host or f'127.0.0.1:{hub.port}'}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    status = int(head.split()[1])
    return status, from_json(body) if b"application/json" in head else body


async def test_both_paths_need_no_token_and_tell_nothing_else() -> None:
    async with RunningHub() as hub, Client(hub.url, token="") as nobody:
        assert await nobody.ask("GET", "/livez") == (200, GOOD)
        assert await nobody.ask("GET", "/readyz") == (200, GOOD)
        head = await nobody.request("HEAD", "/readyz")
        assert (head.status, head.body) == (200, b"")
        assert (await nobody.ask("POST", "/readyz"))[0] == 405


@pytest.mark.parametrize("host", ["10.1.2.3:8300", "[fd00::1]", "hub.internal", "hub"])
async def test_a_kubelet_or_load_balancer_may_use_any_address(host: str) -> None:
    async with RunningHub() as hub:
        for path in ("/livez", "/readyz"):
            assert await probe(hub, path, host=host, Origin="https://evil.example") == (200, GOOD)
        if host.startswith("hub"):  # all other paths keep the rule
            assert (await probe(hub, "/health", host=host))[0] == 403


async def test_the_paths_below_a_sessions_name_belong_to_the_session() -> None:
    async with RunningHub(sessions_origin="https://*.sessions.example") as hub:
        for host in ("aaaabbbb.localhost", "aaaabbbb.sessions.example"):
            status, answer = await probe(hub, "/readyz", host=host)
            assert status != 200
            assert answer != GOOD


async def test_a_database_of_another_schema_is_not_ready(tmp_path: Path) -> None:
    async with RunningHub(tmp_path) as hub:
        with closing(sqlite3.connect(tmp_path / "hub.sqlite")) as database, database:
            database.execute("UPDATE alembic_version SET version_num = '9999'")
        assert await probe(hub, "/readyz") == (503, {"status": "failed", "failed": ["database"]})
        assert await probe(hub, "/livez") == (200, GOOD)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres() as address:
        yield address


@pytest.mark.slow
async def test_a_database_that_does_not_answer_is_not_ready_until_it_does(server: str) -> None:
    """PostgreSQL frozen by SIGSTOP: its kernel still accepts connections, so only time tells."""
    place = Path(server.partition("host=")[2])
    main = int((place / "data/postmaster.pid").read_text().split()[0])
    async with RunningHub(database_url=with_driver(server)) as hub:
        assert await probe(hub, "/readyz") == (200, GOOD)
        frozen = [main, *_children(main)]
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            while (await probe(hub, "/readyz"))[0] == 200:  # the result of the last second
                await asyncio.sleep(0.1)
            status, answer = await probe(hub, "/readyz")
            assert (status, answer["failed"]) == (503, ["database"])
            assert await probe(hub, "/livez") == (200, GOOD)
        finally:
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)
        while (await probe(hub, "/readyz"))[0] != 200:
            await asyncio.sleep(0.1)


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def test_a_hub_without_a_working_spawner_is_not_ready() -> None:
    for kinds, failed in (({"local": False}, ["spawners"]), ({"local": False, "plain": True}, [])):
        with TemporaryDirectory(prefix="bsc-") as state:  # short, for the sockets of sessions

            def make(
                state: str = state, kinds: Mapping[str, bool] = kinds
            ) -> Mapping[str, Spawner]:
                return {
                    kind: PlainSpawner(Path(state, "run"), allow_unisolated=is_allowed)
                    for kind, is_allowed in kinds.items()
                }

            async with RunningHub(Path(state), spawners=make) as hub:
                assert (await probe(hub, "/readyz"))[1]["failed"] == failed


async def test_a_stopping_hub_is_not_ready_and_asks_no_database() -> None:
    async def check() -> None:
        raise AssertionError("the store is closed")

    readiness = Readiness(
        check_database=check, has_usable_spawner=lambda: True, is_stopping=lambda: True
    )
    checks = await readiness.checks()
    assert [name for name, is_good in checks.items() if not is_good] == ["running", "database"]


async def test_many_callers_share_one_query() -> None:
    queries, now = 0, 100.0
    answer = asyncio.Event()

    async def check() -> None:
        nonlocal queries
        queries += 1
        await answer.wait()
        if queries == 2:
            raise StorageFailed("the disk is gone")

    readiness = Readiness(
        check_database=check,
        has_usable_spawner=lambda: True,
        is_stopping=lambda: False,
        clock=lambda: now,
    )
    callers = [asyncio.create_task(readiness.checks()) for _ in range(100)]
    await asyncio.sleep(0)
    answer.set()
    assert all(all(checks.values()) for checks in await asyncio.gather(*callers))
    assert all((await readiness.checks()).values())
    assert queries == 1
    now += 1.5
    assert (await readiness.checks())["database"] is False
    assert queries == 2
    await readiness.aclose()
