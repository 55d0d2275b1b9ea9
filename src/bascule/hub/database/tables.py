"""The tables of the current schema. A test checks that `migrations/` leads to the same schema."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
)

metadata: Final = MetaData()

_number = BigInteger().with_variant(Integer, "sqlite")  # SQLite autoincrements only INTEGER

tokens: Final = Table(
    "tokens",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("owner", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("session_id", Text),
    Column("expires", Float(53)),
    Column("is_sign_in", Boolean, nullable=False, server_default=false()),
    CheckConstraint(
        "scope IN ('admin', 'member', 'viewer', 'agent', 'window', 'session')", name="tokens_scope"
    ),
)

users: Final = Table(
    "users",
    metadata,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("issuer", Text),
    Column("subject", Text),
    Column("display_name", Text, nullable=False),
    Column("is_disabled", Boolean, nullable=False),
    Column("max_sessions", Integer),
    Column("max_running", Integer),
    Column("created", Float(53), nullable=False),
    Column("last_sign_in", Float(53)),
    UniqueConstraint("issuer", "subject", name="users_account"),
)

shares: Final = Table(
    "shares",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("user_name", Text, primary_key=True),
    Column("access", Text, nullable=False),
)

windows: Final = Table(
    "windows",
    metadata,
    Column("id", Text, primary_key=True),
    Column("key_hash", Text, nullable=False),
    Column("owner", Text, nullable=False),
)

sessions: Final = Table(
    "sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("spec", JSON, nullable=False),
    Column("state", Text, nullable=False),
    Column("stage", Text, nullable=False),
    Column("cause", Text, nullable=False),
    Column("created", Float(53), nullable=False),
    Column("updated", Float(53), nullable=False),
    Column("last_active", Float(53), nullable=False),
    Column("request_key", Text),
    Column("request_hash", Text, nullable=False),
    Column("is_filled", Boolean, nullable=False),
    Column("is_doomed", Boolean, key="is_being_removed", nullable=False),
    UniqueConstraint("owner", "request_key", name="sessions_request"),
)

reservations: Final = Table(
    "reservations",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("amount", BigInteger, nullable=False),
)

events: Final = Table(
    "events",
    metadata,
    Column("id", _number, primary_key=True, autoincrement=True),
    Column("session_id", Text, nullable=False),
    Column("time", Float(53), nullable=False),
    Column("kind", Text, nullable=False),
    Column("data", JSON, nullable=False),
    Index("events_session", "session_id", "id"),
    sqlite_autoincrement=True,
)

audit: Final = Table(
    "audit",
    metadata,
    Column("id", _number, primary_key=True, autoincrement=True),
    Column("time", Float(53), nullable=False),
    Column("who", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("verb", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("detail", JSON, nullable=False),
    Column("user_name", Text, nullable=False, server_default=""),
    Index("audit_session", "session_id", "id"),
    Index("audit_user", "user_name", "id"),
)
