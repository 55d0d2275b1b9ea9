"""The tables of sessions, their reservations and events, and the audit log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "sessions",
        sa.Column("id", sa.Text, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("owner", "created_by")),
        sa.Column("spec", sa.JSON, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("state", "stage", "cause")),
        *(
            sa.Column(name, sa.Float(53), nullable=False)
            for name in ("created", "updated", "last_active")
        ),
        sa.Column("request_key", sa.Text),
        sa.Column("request_hash", sa.Text, nullable=False),
        sa.Column("is_filled", sa.Boolean, nullable=False),
        sa.Column("is_doomed", sa.Boolean, nullable=False),
        sa.UniqueConstraint("owner", "request_key", name="sessions_request"),
    )
    op.create_table(
        "reservations",
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "events",
        sa.Column("id", number, primary_key=True, autoincrement=True),
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("time", sa.Float(53), nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("events_session", "events", ["session_id", "id"])
    op.create_table(
        "audit",
        sa.Column("id", number, primary_key=True, autoincrement=True),
        sa.Column("time", sa.Float(53), nullable=False),
        *(
            sa.Column(name, sa.Text, nullable=False)
            for name in ("who", "owner", "verb", "session_id")
        ),
        sa.Column("detail", sa.JSON, nullable=False),
    )
    op.create_index("audit_session", "audit", ["session_id", "id"])
