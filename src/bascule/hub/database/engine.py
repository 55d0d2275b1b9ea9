"""The SQLAlchemy engine, set up so that SQLite is as strict as PostgreSQL."""

from __future__ import annotations

from typing import Any

from sqlalchemy import URL, Connection, event, make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

# The unit of `busy_timeout` is milliseconds.
_PRAGMAS = ("journal_mode = WAL", "synchronous = NORMAL", "busy_timeout = 10000")


def make_engine(address: str | URL) -> AsyncEngine:
    url = make_url(address)
    if url.get_backend_name() != "sqlite":
        return create_async_engine(url, pool_pre_ping=True, pool_size=5)
    # Every transaction ends with its own `begin()` block: the pool has nothing to roll back.
    engine = create_async_engine(url, pool_size=3, pool_reset_on_return=None)
    event.listen(engine.sync_engine, "connect", _prepare)
    event.listen(engine.sync_engine, "begin", _begin)
    return engine


def reading(engine: AsyncEngine) -> AsyncEngine:
    """The same engine for single queries: on SQLite, these need no transaction."""
    return engine.execution_options(is_reading=True)


def _prepare(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # `_begin` starts transactions; the driver must not
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: Connection) -> None:
    """Take SQLite's write lock at once: a transaction that reads first may fail to get it later."""
    if not connection.get_execution_options().get("is_reading", False):
        connection.exec_driver_sql("BEGIN IMMEDIATE")
