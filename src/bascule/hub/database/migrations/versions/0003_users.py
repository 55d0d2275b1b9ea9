"""The tables of users and shares, tokens of users, and who acted in the audit log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_SCOPES = "scope IN ('admin', 'member', 'viewer', 'agent', 'window', 'session')"


def upgrade() -> None:
    _change_tokens()
    op.create_table(
        "users",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("issuer", sa.Text),
        sa.Column("subject", sa.Text),
        sa.Column("display_name", sa.Text, nullable=False),
        sa.Column("is_disabled", sa.Boolean, nullable=False),
        sa.Column("max_sessions", sa.Integer),
        sa.Column("max_running", sa.Integer),
        sa.Column("created", sa.Float(53), nullable=False),
        sa.Column("last_sign_in", sa.Float(53)),
        sa.UniqueConstraint("issuer", "subject", name="users_account"),
    )
    op.create_table(
        "shares",
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("user_name", sa.Text, primary_key=True),
        sa.Column("access", sa.Text, nullable=False),
    )
    op.add_column("audit", sa.Column("user_name", sa.Text, nullable=False, server_default=""))
    op.create_index("audit_user", "audit", ["user_name", "id"])


def _change_tokens() -> None:
    is_sign_in = sa.Column("is_sign_in", sa.Boolean, nullable=False, server_default=sa.false())
    if op.get_bind().dialect.name == "postgresql":
        op.drop_constraint("tokens_scope", "tokens", type_="check")
        op.create_check_constraint("tokens_scope", "tokens", _SCOPES)
        op.add_column("tokens", is_sign_in)
        return
    # SQLite cannot change a constraint, and the oldest databases have one without a name.
    op.rename_table("tokens", "old_tokens")
    op.create_table(
        "tokens",
        sa.Column("hash", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("session_id", sa.Text),
        sa.Column("expires", sa.Float(53)),
        is_sign_in,
        sa.CheckConstraint(_SCOPES, name="tokens_scope"),
    )
    columns = "hash, name, owner, scope, session_id, expires"
    op.execute(f"INSERT INTO tokens ({columns}) SELECT {columns} FROM old_tokens")  # noqa: S608
    op.drop_table("old_tokens")
