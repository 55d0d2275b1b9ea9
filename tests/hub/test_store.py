"""The store on SQLite and on a real PostgreSQL, and databases that earlier versions left."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import subprocess
import sys
import types
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, inspect, text

from bascule.core.errors import InvalidSetting, StorageFailed
from bascule.core.sessions import SessionId
from bascule.core.windows import WindowId
from bascule.hub.database.address import database_address, sqlite_address, with_driver
from bascule.hub.database.engine import make_engine
from bascule.hub.database.migrate import HEAD, KNOWN_VERSIONS, alembic_config, upgrade
from bascule.hub.database.store import SqlStore
from bascule.hub.database.tables import metadata
from bascule.hub.database.token_cache import TimedChangeDetector, TokenCache
from bascule.hub.identity import TokenRow
from bascule.hub.store import Store
from tests.contracts.store import MakeStore, StoreSuite
from tests.hub.postgres import postgres

EARLIEST = """
CREATE TABLE tokens (
    hash TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    scope TEXT NOT NULL CHECK (scope IN ('admin', 'agent', 'window', 'session')),
    session_id TEXT,
    expires REAL
) STRICT;
CREATE TABLE windows (id TEXT PRIMARY KEY, key_hash TEXT NOT NULL, owner TEXT NOT NULL) STRICT;
INSERT INTO tokens VALUES ('h', 'kept', 'ada', 'agent', NULL, 12.5);
INSERT INTO windows VALUES ('w', 'k', 'ada');
"""
"""What the version before migrations made."""


class TestSqlite(StoreSuite):
    @pytest.fixture
    def make(self, tmp_path: Path) -> MakeStore:
        return lambda: SqlStore(sqlite_address(tmp_path / "hub.sqlite"))

    async def test_a_token_that_another_process_removes_is_gone_at_once(
        self, store: Store, make: MakeStore
    ) -> None:
        await store.add_token(TokenRow(hash="h", name="n", owner="ada", scope="agent"))
        assert await store.find_token("h") is not None
        async with make() as other:
            await other.open()
            await other.remove_token("n")
            assert await store.find_token("h") is None

    async def test_closing_waits_for_work_under_way(self, make: MakeStore) -> None:
        """The engine would forget the connections in use and never close them."""
        store = make()
        await store.open()
        reading = [asyncio.create_task(store.find_token(f"{number}")) for number in range(8)]
        await asyncio.sleep(0)  # they have begun
        await store.aclose()
        assert all(each.done() for each in reading)
        assert await asyncio.gather(*reading) == [None] * 8

    async def test_a_row_read_during_the_removal_of_its_token_is_not_cached(
        self, store: Store
    ) -> None:
        row = TokenRow(hash="h", name="n", owner="ada", scope="agent")
        await store.add_token(row)
        assert isinstance(store, SqlStore)
        memory = store._open_cache
        _, before = memory.recall("h")  # and then the database is asked, which takes its time
        await store.remove_token("n")
        assert await store.find_token("h") is None
        memory.keep(row, before)
        assert await store.find_token("h") is None

    async def test_a_cancelled_write_does_not_block_other_writes(
        self, store: Store, tmp_path: Path, no_collection: None
    ) -> None:
        row = TokenRow(hash="h", name="n", owner="ada", scope="agent")
        writes: tuple[Callable[[], Coroutine[Any, Any, object]], ...] = (
            lambda: store.add_event(SessionId("s"), "state", {}, time=1.0),  # which returns a row
            lambda: store.add_token(row),
        )
        for write in writes:
            for step in count(1):
                if not await cancelled_at(step, write()):
                    break
                with closing(sqlite3.connect(tmp_path / "hub.sqlite", timeout=0)) as other:
                    other.execute("BEGIN IMMEDIATE")
                await store.remove_token("n")

    async def test_another_process_sees_that_the_database_is_in_use(
        self, store: Store, tmp_path: Path
    ) -> None:
        command = [sys.executable, "-c", HOLDER, str(tmp_path / "hub.sqlite-shm")]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        assert int(done.stdout) == os.getpid()


@pytest.fixture
def no_collection() -> Iterator[None]:
    """What is not closed stays open."""
    gc.disable()
    yield
    gc.enable()


HOLDER = """
import fcntl, struct, sys
in_use = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 128, 1, 0)
with open(sys.argv[1], "r+b") as index:
    print(struct.unpack("hhqqi4x", fcntl.fcntl(index, fcntl.F_GETLK, in_use))[4])
"""
"""Prints who holds the byte that SQLite locks in the log's index while a database is open."""


async def cancelled_at(step: int, work: Coroutine[Any, Any, object]) -> bool:
    """Whether `work` was still under way after that many waits, and was then cancelled."""

    @types.coroutine
    def driven() -> Generator[Any, Any, bool]:
        try:
            for number in count():
                yield work.throw(asyncio.CancelledError()) if number == step else work.send(None)
        except asyncio.CancelledError:
            return True
        except StopIteration:
            pass
        return False

    return await driven()


def test_without_change_detection_cached_tokens_expire() -> None:
    now = 0.0
    memory = TokenCache(TimedChangeDetector(lambda: now))
    row = TokenRow(hash="h", name="n", owner="ada", scope="agent")
    _, number = memory.recall("h")
    memory.keep(row, number)
    assert memory.recall("h")[0] == row
    now = 2.1
    assert memory.recall("h")[0] is None


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres() as address:
        yield with_driver(address)


@pytest.fixture
async def emptied(server: str) -> str:
    """The server's database with nothing in it."""
    await run(server, lambda connection: connection.execute(text(EMPTY)))
    return server


EMPTY = """
DO $$ DECLARE each record; BEGIN
  FOR each IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP
    EXECUTE 'DROP TABLE ' || quote_ident(each.tablename);
  END LOOP;
END $$
"""


async def run(address: str, work: Callable[[Connection], Any]) -> Any:
    engine = make_engine(address)
    try:
        async with engine.begin() as connection:
            return await connection.run_sync(work)
    finally:
        await engine.dispose()


@pytest.mark.slow
class TestPostgres(StoreSuite):
    @pytest.fixture
    def make(self, emptied: str) -> MakeStore:
        return lambda: SqlStore(emptied)


async def test_a_store_without_a_directory_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    async with SqlStore(database_address("", None)) as store:
        await store.open()
        assert await store.list_sessions() == []
        assert list(tmp_path.iterdir())
    assert list(tmp_path.iterdir()) == []


# Earlier and later versions -----------------------------------------------------------------


async def test_a_database_of_the_earliest_version_is_migrated(tmp_path: Path) -> None:
    path = tmp_path / "hub.sqlite"
    with sqlite3.connect(path) as old:
        old.executescript(EARLIEST)
    old.close()
    async with SqlStore(sqlite_address(path)) as store:
        await store.open()
        (token,) = await store.list_tokens()
        assert (token.name, token.expires) == ("kept", 12.5)
        assert await store.list_sessions() == []
    async with SqlStore(sqlite_address(path)) as store:
        await store.open()
        assert len(await store.list_tokens()) == 1


RELEASED = """
CREATE TABLE alembic_version (version_num TEXT NOT NULL);
INSERT INTO alembic_version VALUES ('0002');
CREATE TABLE tokens (
    hash TEXT NOT NULL, name TEXT NOT NULL, owner TEXT NOT NULL, scope TEXT NOT NULL,
    session_id TEXT, expires FLOAT, PRIMARY KEY (hash),
    CONSTRAINT tokens_scope CHECK (scope IN ('admin', 'agent', 'window', 'session')),
    UNIQUE (name)
);
CREATE TABLE windows (id TEXT NOT NULL, key_hash TEXT NOT NULL, owner TEXT NOT NULL,
    PRIMARY KEY (id));
CREATE TABLE sessions (
    id TEXT NOT NULL, owner TEXT NOT NULL, created_by TEXT NOT NULL, spec JSON NOT NULL,
    state TEXT NOT NULL, stage TEXT NOT NULL, cause TEXT NOT NULL, created FLOAT NOT NULL,
    updated FLOAT NOT NULL, last_active FLOAT NOT NULL, request_key TEXT,
    request_hash TEXT NOT NULL, is_filled BOOLEAN NOT NULL, is_doomed BOOLEAN NOT NULL,
    PRIMARY KEY (id), CONSTRAINT sessions_request UNIQUE (owner, request_key)
);
CREATE TABLE reservations (session_id TEXT NOT NULL, kind TEXT NOT NULL, owner TEXT NOT NULL,
    amount BIGINT NOT NULL, PRIMARY KEY (session_id, kind));
CREATE TABLE events (id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
    time FLOAT NOT NULL, kind TEXT NOT NULL, data JSON NOT NULL);
CREATE INDEX events_session ON events (session_id, id);
CREATE TABLE audit (id INTEGER NOT NULL, time FLOAT NOT NULL, who TEXT NOT NULL,
    owner TEXT NOT NULL, verb TEXT NOT NULL, session_id TEXT NOT NULL, detail JSON NOT NULL,
    PRIMARY KEY (id));
CREATE INDEX audit_session ON audit (session_id, id);
INSERT INTO tokens VALUES ('h', 'kept', 'ada', 'agent', NULL, 12.5);
INSERT INTO windows VALUES ('w', 'k', 'ada');
INSERT INTO audit VALUES (1, 1.5, 'agent', 'ada', 'create', 's', '{}');
"""
"""What version 0.1.0 made."""


async def test_a_database_of_version_0_1_0_is_migrated(tmp_path: Path) -> None:
    path = tmp_path / "hub.sqlite"
    with sqlite3.connect(path) as old:
        old.executescript(RELEASED)
    old.close()
    async with SqlStore(sqlite_address(path)) as store:
        await store.open()
        assert await store.find_token("h") == TokenRow(
            hash="h", name="kept", owner="ada", scope="agent", expires=12.5
        )
        (entry,) = await store.list_audit()
        assert (entry.who, entry.user_name, entry.id) == ("agent", "", 1)
        await store.add_token(TokenRow(hash="i", name="new", owner="ada", scope="member"))
        assert await store.list_users() == []
        assert not await store.bind_window(WindowId("w"), "another", "ada")


async def test_concurrent_migrations_run_one_after_another(tmp_path: Path) -> None:
    path = tmp_path / "hub.sqlite"
    with sqlite3.connect(path) as old:
        old.executescript(EARLIEST)
    old.close()
    stores = [SqlStore(sqlite_address(path)) for _ in range(3)]
    await asyncio.gather(*(store.open() for store in stores))
    for store in stores:
        assert len(await store.list_tokens()) == 1
        await store.aclose()


async def test_a_database_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    address = sqlite_address(tmp_path / "hub.sqlite")
    async with SqlStore(address) as store:
        await store.open()
    newer = text("UPDATE alembic_version SET version_num = '9999'")
    await run(address, lambda connection: connection.execute(newer))
    async with SqlStore(address) as store:
        with pytest.raises(StorageFailed, match=r"newer version.*9999"):
            await store.open()


def shape(connection: Connection) -> dict[str, Any]:
    """Columns, keys and indexes of every table, as the database tells them."""
    look: Any = inspect(connection)
    return {
        table: (
            [
                (each["name"], str(each["type"]), each["nullable"])
                for each in look.get_columns(table)
            ],
            look.get_pk_constraint(table)["constrained_columns"],
            sorted(
                (each["name"] or "", tuple(each["column_names"]))
                for each in (*look.get_indexes(table), *look.get_unique_constraints(table))
            ),
        )
        for table in metadata.tables
    }


async def test_migrations_and_table_definitions_match_on_sqlite(tmp_path: Path) -> None:
    await same_shape(sqlite_address(tmp_path / "a"), sqlite_address(tmp_path / "b"))


@pytest.mark.slow
async def test_migrations_and_table_definitions_match_on_postgresql(emptied: str) -> None:
    await run(emptied, metadata.create_all)
    made = await run(emptied, shape)
    await run(emptied, lambda connection: connection.execute(text(EMPTY)))
    await run(emptied, upgrade)
    assert await run(emptied, shape) == made


async def same_shape(first: str, second: str) -> None:
    await run(first, metadata.create_all)
    await run(second, upgrade)
    assert await run(first, shape) == await run(second, shape)


def test_every_migration_is_known_in_its_order() -> None:
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory.from_config(alembic_config())
    assert scripts.get_current_head() == HEAD
    assert [each.revision for each in scripts.walk_revisions()][::-1] == list(KNOWN_VERSIONS[1:])


# Where it is --------------------------------------------------------------------------------


def test_a_database_url_needs_no_driver_name(tmp_path: Path) -> None:
    assert with_driver("postgresql://u:p@h/n") == "postgresql+asyncpg://u:p@h/n"
    assert database_address("", tmp_path) == f"sqlite+aiosqlite:///{tmp_path}/hub.sqlite"
    with pytest.raises(InvalidSetting, match="'mysql'"):
        with_driver("mysql://h/n")


@pytest.mark.slow
async def test_an_unreachable_database_is_reported_without_its_password() -> None:
    store = SqlStore(with_driver("postgresql://hub:pass-word@127.0.0.1:1/hub"))
    with pytest.raises(StorageFailed, match=r"postgresql at 127\.0\.0\.1, hub") as error:
        await store.open()
    assert "pass-word" not in error.value.message
    await store.aclose()
