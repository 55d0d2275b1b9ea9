"""Tokens and where they are kept."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bascule.core.errors import InvalidRequest, InvalidSetting
from bascule.core.windows import WindowId
from bascule.hub.database.address import sqlite_address
from bascule.hub.database.store import SqlStore
from bascule.hub.tokens import Tokens, admin_token, hash_of


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    async with SqlStore(sqlite_address(tmp_path / "hub.sqlite")) as store:
        await store.open()
        yield store


def test_the_admin_token_is_created_once_and_readable_only_by_its_owner(tmp_path: Path) -> None:
    token = admin_token(tmp_path / "state")
    file = tmp_path / "state/admin-token"
    assert admin_token(tmp_path / "state") == token
    assert len(token) == 47
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_an_empty_token_file_is_no_token(tmp_path: Path) -> None:
    (tmp_path / "admin-token").touch()
    with pytest.raises(InvalidSetting):
        admin_token(tmp_path)


async def test_a_new_token_with_an_old_name_has_another_id(store: SqlStore) -> None:
    """By which windows know whom they admitted; the id says nothing of token or hash."""
    tokens = Tokens(store, "the-first")
    first = await tokens.identify(await tokens.create("helper", "agent"))
    assert first is not None
    await tokens.revoke("helper")
    token = await tokens.create("helper", "agent")
    second, again = await tokens.identify(token), await tokens.identify(token)
    assert second is not None
    assert second == again
    assert first.agent_id != second.agent_id
    assert second.agent_id not in hash_of(token)


async def test_a_token_identifies_its_owner(store: SqlStore) -> None:
    tokens = Tokens(store, "the-first")
    token = await tokens.create("helper", "agent", owner="ann")
    identity = await tokens.identify(token)
    assert identity is not None
    assert (identity.name, identity.owner, identity.scope) == ("helper", "ann", "agent")
    assert (await tokens.identify("the-first")) is not None
    assert (await tokens.identify(token + "x")) is None
    assert (await tokens.identify("")) is None


async def test_the_store_does_not_contain_the_token_itself(store: SqlStore, tmp_path: Path) -> None:
    token = await Tokens(store, "first").create("helper", "agent")
    held = b"".join(path.read_bytes() for path in tmp_path.glob("hub.sqlite*"))
    assert b"helper" in held
    assert token.encode() not in held
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in tmp_path.glob("hub.*"))


async def test_a_token_expires(store: SqlStore) -> None:
    now = 1000.0
    tokens = Tokens(store, "first", clock=lambda: now)
    token = await tokens.create("helper", "agent", lifetime=10)
    assert await tokens.identify(token) is not None
    now = 1010.0
    assert await tokens.identify(token) is None


async def test_a_revoked_token_is_unknown(store: SqlStore) -> None:
    tokens = Tokens(store, "first")
    token = await tokens.create("helper", "agent")
    assert await tokens.revoke("helper")
    assert not await tokens.revoke("helper")
    assert await tokens.identify(token) is None


async def test_two_tokens_cannot_have_one_name(store: SqlStore) -> None:
    tokens = Tokens(store, "first")
    await tokens.create("helper", "agent")
    with pytest.raises(InvalidRequest, match="helper"):
        await tokens.create("helper", "window")
    assert [row.scope for row in await store.list_tokens()] == ["agent"]


async def test_a_window_id_belongs_to_its_first_key_and_owner(
    store: SqlStore, tmp_path: Path
) -> None:
    window = WindowId("one")
    assert await store.bind_window(window, "key", "ann")
    assert not await store.bind_window(window, "other", "ann")
    assert not await store.bind_window(window, "key", "bob")
    await store.aclose()
    async with SqlStore(sqlite_address(tmp_path / "hub.sqlite")) as again:
        await again.open()
        assert await again.bind_window(window, "key", "ann")
        assert not await again.bind_window(window, "other", "ann")


async def test_the_token_of_a_session_is_the_same_until_it_is_revoked(store: SqlStore) -> None:
    tokens = Tokens(store, "admin")
    first, again = await asyncio.gather(*(tokens.for_session("abc", owner="ann") for _ in range(2)))
    other = await tokens.for_session("def", owner="ann")
    who = await tokens.identify(first)
    await tokens.revoke("session abc")

    assert first == again != other
    assert who is not None
    assert (who.scope, who.session_id, who.owner) == ("session", "abc", "ann")
    assert await tokens.identify(first) is None
