"""The hub's store in a SQL database."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Literal,
    ParamSpec,
    Protocol,
    TypeVar,
)

from sqlalchemy import (
    ColumnElement,
    Delete,
    Select,
    Table,
    delete,
    exists,
    func,
    insert,
    make_url,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.pool import QueuePool

from bascule.core.errors import AccessDenied, InvalidRequest, StorageFailed
from bascule.core.sessions import SessionId, SessionState
from bascule.core.windows import WindowId
from bascule.hub.accounts.rows import AuditFilter, Share, UserRow
from bascule.hub.identity import SCOPES, Access, Scope, TokenRow, scopes_of
from bascule.hub.sessions.quotas import quota_exceeded
from bascule.hub.sessions.rows import AuditRow, Claim, EventRow, SessionRow
from bascule.hub.sessions.specs import spec_from_json, spec_to_json
from bascule.hub.store import Store

from . import tables
from .address import DATABASE_FILE, described_address
from .cancellation import finish_before_cancel
from .engine import make_engine, reading
from .migrate import ensure_migrated, migrate
from .token_cache import TokenCache, change_detector

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

_QUOTA_LOCK: Final = 7_263_171
"""Key of the PostgreSQL advisory lock for changes of reservations."""


_USER_COLUMNS: Final = tuple(each.key for each in tables.users.columns)
_ALL_ENTRIES: Final = AuditFilter()
_SESSION_COLUMNS: Final = tuple(each.key for each in tables.sessions.columns)

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _finish_on_sqlite(
    method: Callable[Concatenate[SqlStore, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[SqlStore, _P], Coroutine[Any, Any, _T]]:
    """Decorator: on SQLite, finish the work before a cancellation takes effect.

    SQLite's driver works in a thread, which a cancellation does not reach. A connection that is
    closed with unfetched rows keeps its transaction until the cursor is garbage-collected; until
    then nobody can write. PostgreSQL needs no such wait; a wait could last forever if its server
    does not answer.
    """

    @wraps(method)
    async def finish(self: SqlStore, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        work = method(self, *args, **kwargs)
        if not self._is_sqlite:
            return await work
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return await finish_before_cancel(task)

    return finish


class OnTransaction(Protocol):
    """Called after a transaction."""

    def __call__(
        self, operation: Literal["read", "write"], seconds: float, *, failed: bool
    ) -> None: ...


class SqlStore(Store):
    """Stores everything in the database at `address`; `sqlite://` is a temporary file.

    Several processes may open the same database: a CLI command adds a token while the hub runs.
    """

    def __init__(self, address: str, *, on_transaction: OnTransaction | None = None) -> None:
        """`on_transaction` is called after each transaction with its operation, its seconds, and
        whether the database failed it."""
        self._on_transaction = on_transaction
        self._address = address
        self._is_sqlite = make_url(address).get_backend_name() == "sqlite"
        self._engine: AsyncEngine | None = None
        self._work: set[asyncio.Task[Any]] = set()
        """Unfinished database operations; used only with SQLite."""
        self._token_cache: TokenCache | None = None
        self._temporary_directory: TemporaryDirectory[str] | None = None

    @_finish_on_sqlite
    async def open(self) -> None:
        url = make_url(self._address)
        if self._is_sqlite:
            url = url.set(database=await asyncio.to_thread(self._create_file, url.database))
        self._engine = make_engine(url)
        try:
            await migrate(self._engine)
        except (SQLAlchemyError, OSError) as error:
            address = described_address(self._address)
            raise StorageFailed(
                f"The hub's database ({address}) cannot be used: {_cause(error)}"
            ) from error
        file = url.database if self._is_sqlite else None
        self._token_cache = TokenCache(await asyncio.to_thread(change_detector, file))

    @_finish_on_sqlite
    async def check(self) -> None:
        try:
            async with reading(self._open_engine).connect() as connection:
                await ensure_migrated(connection)
        except (SQLAlchemyError, OSError) as error:
            address = described_address(self._address)
            raise StorageFailed(
                f"The hub's database ({address}) does not answer: {_cause(error)}"
            ) from error

    async def aclose(self) -> None:
        await finish_before_cancel(self._close())

    async def _close(self) -> None:
        # `dispose` closes only idle connections. A connection in use would never be closed.
        while self._work:
            await asyncio.wait(self._work)
        if self._engine is not None:
            await self._engine.dispose()
            self._engine = None
        if self._token_cache is not None:
            await asyncio.to_thread(self._token_cache.close)
            self._token_cache = None
        if self._temporary_directory is not None:
            await asyncio.to_thread(self._temporary_directory.cleanup)
            self._temporary_directory = None

    def _create_file(self, database: str | None) -> str:
        """Create the SQLite file with mode 600 and return its path.

        SQLite gives the files beside it the same mode. Without a name, the file is temporary. An
        in-memory database would be lost when its connection closes.
        """
        if not database:
            self._temporary_directory = TemporaryDirectory(prefix="bascule-hub-")
            database = f"{self._temporary_directory.name}/{DATABASE_FILE}"
        Path(database).touch(mode=0o600)
        return database

    # Tokens and windows -------------------------------------------------------------------

    @_finish_on_sqlite
    async def add_token(self, row: TokenRow) -> None:
        values = {
            "hash": row.hash,
            "name": row.name,
            "owner": row.owner,
            "scope": row.scope,
            "session_id": row.session_id,
            "expires": row.expires,
            "is_sign_in": row.is_sign_in,
        }
        users = tables.users.c
        # With the lock, PostgreSQL delays a concurrent `put_user` until this token is stored, so
        # the removal of tokens that follows `put_user` finds it. SQLite has one writer.
        owner = (
            select(users.role, users.is_disabled)
            .where(users.name == row.owner)
            .with_for_update(read=True)
        )
        try:
            async with self._writing() as connection:
                user = (await connection.execute(owner)).one_or_none()
                if user is not None and (user.is_disabled or row.scope not in scopes_of(user.role)):
                    state = "is disabled" if user.is_disabled else f"has the role {user.role}"
                    raise AccessDenied(
                        f"The user {row.owner} {state} and may not have a token of the scope "
                        f"{row.scope}"
                    )
                await connection.execute(insert(tables.tokens), values)
        except IntegrityError:
            raise InvalidRequest(
                f"There is a token named {row.name!r} already; "
                "remove that token or choose another name"
            ) from None

    async def find_token(self, token_hash: str) -> TokenRow | None:
        row, state = self._open_cache.recall(token_hash)
        if row is not None:
            return row
        query = select(tables.tokens).where(tables.tokens.c.hash == token_hash)
        rows = await self._rows(query)
        if not rows:
            return None
        row = TokenRow(**rows[0])
        self._open_cache.keep(row, state)
        return row

    async def list_tokens(self) -> Sequence[TokenRow]:
        query = select(tables.tokens).order_by(tables.tokens.c.name)
        return [TokenRow(**row) for row in await self._rows(query)]

    async def count_tokens(self, *, now: float) -> Mapping[Scope, int]:
        columns = tables.tokens.c
        query = (
            select(columns.scope, func.count().label("number"))
            .where(or_(columns.expires.is_(None), columns.expires > now))
            .group_by(columns.scope)
        )
        try:
            found = {row["scope"]: row["number"] for row in await self._rows(query)}
        except (SQLAlchemyError, OSError) as error:
            raise StorageFailed(f"The hub's database does not answer: {_cause(error)}") from error
        return {scope: found.get(scope, 0) for scope in SCOPES}

    def connection_counts(self) -> Mapping[str, int]:
        """The connections to the database that are in use, and those that are idle."""
        pool = self._open_engine.pool
        assert isinstance(pool, QueuePool)
        return {"in_use": pool.checkedout(), "idle": pool.checkedin()}

    @_finish_on_sqlite
    async def remove_token(self, name: str, *, owner: str | None = None) -> bool:
        columns = tables.tokens.c
        is_owners = [] if owner is None else [columns.owner == owner]
        return await self._remove_tokens(columns.name == name, *is_owners) > 0

    @_finish_on_sqlite
    async def remove_token_hash(self, token_hash: str) -> bool:
        return await self._remove_tokens(tables.tokens.c.hash == token_hash) > 0

    @_finish_on_sqlite
    async def remove_tokens_of(self, owner: str, *, keep: Collection[Scope] = ()) -> int:
        columns = tables.tokens.c
        return await self._remove_tokens(columns.owner == owner, columns.scope.not_in(keep))

    @_finish_on_sqlite
    async def remove_sign_ins(self, owner: str, *, except_scope: Scope | None = None) -> int:
        columns = tables.tokens.c
        others = [] if except_scope is None else [columns.scope != except_scope]
        return await self._remove_tokens(columns.owner == owner, columns.is_sign_in, *others)

    async def _remove_tokens(self, *conditions: ColumnElement[bool]) -> int:
        async with self._discarding_cache(), self._writing() as connection:
            result = await connection.execute(delete(tables.tokens).where(*conditions))
            return result.rowcount

    @_finish_on_sqlite
    async def bind_window(self, window_id: WindowId, key_hash: str, owner: str) -> bool:
        values = {"id": window_id, "key_hash": key_hash, "owner": owner}
        columns = tables.windows.c
        async with self._writing() as connection:
            await connection.execute(self._insert(tables.windows, values).on_conflict_do_nothing())
            query = select(columns.key_hash, columns.owner).where(columns.id == window_id)
            row = (await connection.execute(query)).one()
        return tuple(row) == (key_hash, owner)

    # Users --------------------------------------------------------------------------------

    @_finish_on_sqlite
    async def put_user(self, row: UserRow) -> None:
        values = {name: getattr(row, name) for name in _USER_COLUMNS}
        query = self._insert(tables.users, values).on_conflict_do_update(
            index_elements=["name"], set_=values
        )
        try:
            async with self._writing() as connection:
                await connection.execute(query)
        except IntegrityError:
            raise InvalidRequest(
                f"Another user has the account {row.subject!r} of {row.issuer}"
            ) from None

    async def find_user(self, name: str) -> UserRow | None:
        return await self._user(tables.users.c.name == name)

    async def find_account(self, issuer: str, subject: str) -> UserRow | None:
        columns = tables.users.c
        return await self._user(columns.issuer == issuer, columns.subject == subject)

    async def _user(self, *conditions: ColumnElement[bool]) -> UserRow | None:
        rows = await self._rows(select(tables.users).where(*conditions))
        return UserRow(**rows[0]) if rows else None

    async def list_users(self) -> Sequence[UserRow]:
        query = select(tables.users).order_by(tables.users.c.name)
        return [UserRow(**row) for row in await self._rows(query)]

    async def has_owner(self, name: str) -> bool:
        owners = [each.c.owner for each in (tables.tokens, tables.windows, tables.sessions)]
        columns = (tables.users.c.name, tables.shares.c.user_name, *owners)
        found = [exists().where(column == name) for column in columns]
        (row,) = await self._rows(select(or_(*found).label("found")))
        return bool(row["found"])

    @_finish_on_sqlite
    async def put_share(self, session_id: SessionId, user_name: str, access: Access | None) -> None:
        values = {"session_id": session_id, "user_name": user_name, "access": access}
        columns = tables.shares.c
        query: Delete | postgresql.Insert | sqlite.Insert
        if access is None:
            query = delete(tables.shares).where(
                columns.session_id == session_id, columns.user_name == user_name
            )
        else:
            query = self._insert(tables.shares, values).on_conflict_do_update(
                index_elements=["session_id", "user_name"], set_={"access": access}
            )
        async with self._writing() as connection:
            await connection.execute(query)

    async def list_shares(self) -> Sequence[Share]:
        return [Share(**row) for row in await self._rows(select(tables.shares))]

    # Sessions -----------------------------------------------------------------------------

    @_finish_on_sqlite
    async def add_session(self, row: SessionRow, claims: Sequence[Claim]) -> SessionRow:
        async with self._quota_transaction() as connection:
            if row.request_key is not None:
                columns = tables.sessions.c
                rows = await connection.execute(
                    select(tables.sessions).where(
                        columns.owner == row.owner, columns.request_key == row.request_key
                    )
                )
                if (existing := rows.mappings().one_or_none()) is not None:
                    return _session_row(existing)
            await self._reserve(connection, row.id, row.owner, claims)
            await connection.execute(insert(tables.sessions), _session_values(row))
        return row

    async def find_session(self, session_id: SessionId) -> SessionRow | None:
        rows = await self._rows(select(tables.sessions).where(tables.sessions.c.id == session_id))
        return _session_row(rows[0]) if rows else None

    async def list_sessions(self, owner: str | None = None) -> Sequence[SessionRow]:
        columns = tables.sessions.c
        query = select(tables.sessions).order_by(columns.created, columns.id)
        if owner is not None:
            query = query.where(columns.owner == owner)
        return [_session_row(row) for row in await self._rows(query)]

    @_finish_on_sqlite
    async def change_session(
        self,
        session_id: SessionId,
        changes: Mapping[str, Any],
        *,
        states: Collection[SessionState] | None = None,
    ) -> SessionRow | None:
        columns = tables.sessions.c
        values = dict(changes)
        if "spec" in values:
            values["spec"] = spec_to_json(values["spec"])
        query = update(tables.sessions).where(columns.id == session_id)
        if states is not None:
            query = query.where(columns.state.in_(states))
        async with self._writing() as connection:
            result = await connection.execute(query.values(**values).returning(tables.sessions))
            row = result.mappings().one_or_none()
        return None if row is None else _session_row(row)

    @_finish_on_sqlite
    async def remove_session(self, session_id: SessionId) -> bool:
        async with self._discarding_cache(), self._quota_transaction() as connection:
            for table in (tables.reservations, tables.events, tables.shares, tables.tokens):
                await connection.execute(delete(table).where(table.c.session_id == session_id))
            result = await connection.execute(
                delete(tables.sessions).where(tables.sessions.c.id == session_id)
            )
            return result.rowcount > 0

    @_finish_on_sqlite
    async def reserve(self, session_id: SessionId, owner: str, claims: Sequence[Claim]) -> None:
        async with self._quota_transaction() as connection:
            await self._reserve(connection, session_id, owner, claims)

    @_finish_on_sqlite
    async def release(self, session_id: SessionId, kinds: Collection[str]) -> None:
        columns = tables.reservations.c
        async with self._quota_transaction() as connection:
            await connection.execute(
                delete(tables.reservations).where(
                    columns.session_id == session_id, columns.kind.in_(kinds)
                )
            )

    async def _reserve(
        self,
        connection: AsyncConnection,
        session_id: SessionId,
        owner: str,
        claims: Sequence[Claim],
    ) -> None:
        columns = tables.reservations.c
        for claim in claims:
            for quota in claim.quotas:
                owner_filter: list[ColumnElement[bool]] = (
                    [columns.owner == owner] if quota.per_owner else []
                )
                query = select(func.coalesce(func.sum(columns.amount), 0)).where(
                    columns.kind == claim.kind, columns.session_id != session_id, *owner_filter
                )
                taken = int((await connection.execute(query)).scalar_one())
                if taken + claim.amount > quota.limit:
                    raise quota_exceeded(claim, quota, taken, owner)
            values = {
                "session_id": session_id,
                "kind": claim.kind,
                "owner": owner,
                "amount": claim.amount,
            }
            await connection.execute(
                self._insert(tables.reservations, values).on_conflict_do_update(
                    index_elements=["session_id", "kind"], set_={"amount": claim.amount}
                )
            )

    # Events and audit log -----------------------------------------------------------------

    @_finish_on_sqlite
    async def add_event(
        self, session_id: SessionId, kind: str, data: Mapping[str, Any], *, time: float
    ) -> EventRow:
        values = {"session_id": session_id, "time": time, "kind": kind, "data": dict(data)}
        async with self._writing() as connection:
            result = await connection.execute(
                insert(tables.events).values(**values).returning(tables.events.c.id)
            )
            number = int(result.scalar_one())
        return EventRow(number, session_id, time, kind, data)

    async def list_events(
        self, session_id: SessionId, *, after: int = 0, limit: int = 1000
    ) -> Sequence[EventRow]:
        columns = tables.events.c
        query = (
            select(tables.events)
            .where(columns.session_id == session_id, columns.id > after)
            .order_by(columns.id)
            .limit(limit)
        )
        return [EventRow(**row) for row in await self._rows(query)]

    @_finish_on_sqlite
    async def add_audit(self, row: AuditRow) -> None:
        values = {
            "time": row.time,
            "who": row.who,
            "owner": row.owner,
            "verb": row.verb,
            "session_id": row.session_id,
            "detail": dict(row.detail),
            "user_name": row.user_name,
        }
        async with self._writing() as connection:
            await connection.execute(insert(tables.audit), values)

    async def list_audit(
        self, only: AuditFilter = _ALL_ENTRIES, *, limit: int = 1000
    ) -> Sequence[AuditRow]:
        columns = tables.audit.c
        query = select(tables.audit).order_by(columns.id.desc()).limit(limit)
        for column in (columns.session_id, columns.user_name, columns.verb):
            if (value := getattr(only, column.name)) is not None:
                query = query.where(column == value)
        if only.since is not None:
            query = query.where(columns.time >= only.since)
        if only.before is not None:
            query = query.where(columns.id < only.before)
        return [AuditRow(**row) for row in await self._rows(query)]

    @_finish_on_sqlite
    async def forget(self, *, audit_before: float, events_kept: int) -> None:
        events = tables.events
        numbered = select(
            events.c.id,
            func.row_number()
            .over(partition_by=events.c.session_id, order_by=events.c.id.desc())
            .label("age"),
        ).subquery()
        old = select(numbered.c.id).where(numbered.c.age > events_kept)
        async with self._writing() as connection:
            await connection.execute(delete(events).where(events.c.id.in_(old)))
            await connection.execute(delete(tables.audit).where(tables.audit.c.time < audit_before))

    # ----------------------------------------------------------------------------------------

    @property
    def _open_engine(self) -> AsyncEngine:
        assert self._engine is not None, "the store is not open"
        return self._engine

    @property
    def _open_cache(self) -> TokenCache:
        assert self._token_cache is not None, "the store is not open"
        return self._token_cache

    @_finish_on_sqlite
    async def _rows(self, query: Select[Any]) -> Sequence[Mapping[Any, Any]]:
        with self._timed("read"):
            async with reading(self._open_engine).connect() as connection:
                rows: Sequence[Mapping[Any, Any]] = (
                    (await connection.execute(query)).mappings().all()
                )
        return rows

    @contextmanager
    def _timed(self, operation: Literal["read", "write"]) -> Iterator[None]:
        """Report the time of the block, and whether the database failed it. A violated constraint
        is an answer of the database, not a failure."""
        if self._on_transaction is None:
            yield
            return
        started, failed = time.perf_counter(), False
        try:
            yield
        except IntegrityError:
            raise
        except (SQLAlchemyError, OSError):
            failed = True
            raise
        finally:
            self._on_transaction(operation, time.perf_counter() - started, failed=failed)

    @asynccontextmanager
    async def _discarding_cache(self) -> AsyncIterator[None]:
        """Clear the token cache after the block, even after an error: tokens may have changed."""
        try:
            yield
        finally:
            self._open_cache.forget()

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[AsyncConnection]:
        try:
            with self._timed("write"):
                async with self._open_engine.begin() as connection:
                    yield connection
        except OperationalError as error:
            if "disk" in _cause(error):  # both databases: `disk is full`, `disk I/O error`…
                raise StorageFailed(
                    f"The hub's database cannot be written: {_cause(error)}"
                ) from error
            raise

    @asynccontextmanager
    async def _quota_transaction(self) -> AsyncIterator[AsyncConnection]:
        """A transaction during which no other process reserves or releases.

        Otherwise two sessions could reserve the same free amount.
        """
        async with self._writing() as connection:
            if connection.dialect.name == "postgresql":
                await connection.execute(text(f"SELECT pg_advisory_xact_lock({_QUOTA_LOCK})"))
            yield connection

    def _insert(self, table: Table, values: Mapping[str, Any]) -> postgresql.Insert | sqlite.Insert:
        """An INSERT that supports `on_conflict_…`, which both databases write the same way."""
        # The engine has imported its own dialect. Importing the other one would take 2 MiB.
        if self._open_engine.dialect.name == "postgresql":
            from sqlalchemy.dialects import postgresql

            return postgresql.insert(table).values(**values)
        from sqlalchemy.dialects import sqlite

        return sqlite.insert(table).values(**values)


def _session_values(row: SessionRow) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in _SESSION_COLUMNS}
    return {**values, "spec": spec_to_json(row.spec)}


def _session_row(row: Mapping[Any, Any]) -> SessionRow:
    values = {column.key: row[column] for column in tables.sessions.columns}
    return SessionRow(**{**values, "spec": spec_from_json(values["spec"])})


def _cause(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).partition("\n")[0] or os.strerror(0)
