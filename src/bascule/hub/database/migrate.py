"""Migrates a database of any earlier version to the current schema."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Column, Connection, MetaData, Table, Text, insert, inspect, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from bascule.core.errors import StorageFailed

from .tables import metadata

HEAD: Final = "0003"
"""Schema version after the newest migration."""

KNOWN_VERSIONS: Final = ("", "0001", "0002", HEAD)
"""All schema versions, oldest first. "" is a database from before versions were stored."""

_version: Final = Table("alembic_version", MetaData(), Column("version_num", Text, nullable=False))
_LOCK: Final = 7_263_170
"""Key of the PostgreSQL advisory lock for migrations: an arbitrary number, used only here."""


async def migrate(engine: AsyncEngine) -> None:
    """Create the tables in an empty database, or run the missing migrations.

    Processes that start at the same time migrate one after the other.
    """
    async with engine.connect() as connection:
        version = await connection.run_sync(_version_of)
    if version == HEAD:
        return
    if version is not None and version not in KNOWN_VERSIONS:
        raise StorageFailed(
            f"The database is of a newer version of Bascule (schema {version}; this version "
            f"knows {HEAD}); start that version, or use another database"
        )
    if version is None:
        async with engine.begin() as connection:
            await connection.run_sync(_create_tables)
    else:
        # Alembic reads files and blocks, so it runs in a thread with its own event loop.
        await asyncio.to_thread(asyncio.run, _upgrade(engine))


async def ensure_migrated(connection: AsyncConnection) -> None:
    """Raise `StorageFailed` unless the database has the current schema. One query, without the
    inspection that `migrate` needs for databases of old versions."""
    version = (await connection.execute(select(_version.c.version_num))).scalar()
    if version != HEAD:
        raise StorageFailed(
            f"The database has the schema {version}; this version of Bascule needs {HEAD}"
        )


def _version_of(connection: Connection) -> str | None:
    """The schema version stored in the database; None if it is empty."""
    tables = set(inspect(connection).get_table_names())
    if _version.name in tables:
        return connection.execute(select(_version.c.version_num)).scalar() or ""
    return "" if "tokens" in tables else None


def _create_tables(connection: Connection) -> None:
    _lock_migrations(connection)
    if _version_of(connection) is None:
        metadata.create_all(connection)
        _version.create(connection)
        connection.execute(insert(_version), {"version_num": HEAD})


async def _upgrade(engine: AsyncEngine) -> None:
    from .engine import make_engine

    thread_engine = make_engine(engine.url)
    try:
        async with thread_engine.begin() as connection:
            await connection.run_sync(upgrade)
    finally:
        await thread_engine.dispose()


def upgrade(connection: Connection) -> None:
    """Run the migrations that the database lacks."""
    _lock_migrations(connection)
    if _version_of(connection) == HEAD:
        return
    from alembic import command

    config = alembic_config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def alembic_config() -> Any:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config


def _lock_migrations(connection: Connection) -> None:
    """On PostgreSQL, lock out other migrations until the transaction ends.

    On SQLite, the transaction itself holds the write lock from its start.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
