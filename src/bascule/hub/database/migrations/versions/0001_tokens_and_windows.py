"""The tables of tokens and windows. Databases older than the first migration have them already."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    existing = sa.inspect(op.get_bind()).get_table_names()
    if "tokens" not in existing:
        op.create_table(
            "tokens",
            sa.Column("hash", sa.Text, primary_key=True),
            sa.Column("name", sa.Text, nullable=False, unique=True),
            sa.Column("owner", sa.Text, nullable=False),
            sa.Column("scope", sa.Text, nullable=False),
            sa.Column("session_id", sa.Text),
            sa.Column("expires", sa.Float(53)),
            sa.CheckConstraint(
                "scope IN ('admin', 'agent', 'window', 'session')", name="tokens_scope"
            ),
        )
    if "windows" not in existing:
        op.create_table(
            "windows",
            sa.Column("id", sa.Text, primary_key=True),
            sa.Column("key_hash", sa.Text, nullable=False),
            sa.Column("owner", sa.Text, nullable=False),
        )
