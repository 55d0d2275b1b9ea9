"""The embedded store: one SQLite file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import aiosqlite

from bascule.core.errors import InvalidRequest
from bascule.core.windows import WindowId

from .identity import TokenRow
from .store import Store

DATABASE: Final = "hub.sqlite"
"""The file's name in a hub's state directory."""

_SCHEMA: Final = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS tokens (
    hash TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    scope TEXT NOT NULL CHECK (scope IN ('admin', 'agent', 'window', 'session')),
    session_id TEXT,
    expires REAL
) STRICT;
CREATE TABLE IF NOT EXISTS windows (
    id TEXT PRIMARY KEY,
    key_hash TEXT NOT NULL,
    owner TEXT NOT NULL
) STRICT;
"""
_COLUMNS: Final = "hash, name, owner, scope, session_id, expires"


class SqliteStore(Store):
    """Keeps all in `path`, mode 600; without a path in memory alone.

    Several processes may have it open: a command adds a token while the hub runs.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._open: aiosqlite.Connection | None = None

    async def open(self) -> None:
        if self._path is not None:
            # SQLite gives its side files the mode of the main one.
            await asyncio.to_thread(self._path.touch, mode=0o600)
        self._open = await aiosqlite.connect(self._path or ":memory:", isolation_level=None)
        await self._open.executescript(_SCHEMA)

    async def aclose(self) -> None:
        if self._open is not None:
            await self._open.close()
            self._open = None

    async def add_token(self, row: TokenRow) -> None:
        values = (row.hash, row.name, row.owner, row.scope, row.session_id, row.expires)
        try:
            await self._database.execute(
                f"INSERT INTO tokens ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",  # noqa: S608
                values,
            )
        except aiosqlite.IntegrityError:
            raise InvalidRequest(
                f"There is a token named {row.name!r} already; remove it or name this one otherwise"
            ) from None

    async def find_token(self, token_hash: str) -> TokenRow | None:
        query = f"SELECT {_COLUMNS} FROM tokens WHERE hash = ?"  # noqa: S608
        async with self._database.execute(query, (token_hash,)) as rows:
            row = await rows.fetchone()
        return None if row is None else _token(row)

    async def list_tokens(self) -> Sequence[TokenRow]:
        query = f"SELECT {_COLUMNS} FROM tokens ORDER BY name"  # noqa: S608
        async with self._database.execute(query) as rows:
            return [_token(row) async for row in rows]

    async def remove_token(self, name: str) -> bool:
        removed = await self._database.execute("DELETE FROM tokens WHERE name = ?", (name,))
        return removed.rowcount > 0

    async def bind_window(self, window_id: WindowId, key_hash: str, owner: str) -> bool:
        await self._database.execute(
            "INSERT OR IGNORE INTO windows (id, key_hash, owner) VALUES (?, ?, ?)",
            (window_id, key_hash, owner),
        )
        query = "SELECT key_hash, owner FROM windows WHERE id = ?"
        async with self._database.execute(query, (window_id,)) as rows:
            row = await rows.fetchone()
        return row is not None and tuple(row) == (key_hash, owner)

    @property
    def _database(self) -> aiosqlite.Connection:
        assert self._open is not None, "the store is not open"
        return self._open


def _token(row: aiosqlite.Row | tuple[object, ...]) -> TokenRow:
    hashed, name, owner, scope, session_id, expires = row
    return TokenRow(
        hash=hashed,  # type: ignore[arg-type]  # the table's own types
        name=name,  # type: ignore[arg-type]
        owner=owner,  # type: ignore[arg-type]
        scope=scope,  # type: ignore[arg-type]
        session_id=session_id,  # type: ignore[arg-type]
        expires=expires,  # type: ignore[arg-type]
    )
