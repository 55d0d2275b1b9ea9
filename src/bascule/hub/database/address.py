"""The address of a hub's database."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from bascule.core.errors import InvalidSetting

DATABASE_FILE: Final = "hub.sqlite"
"""Name of the SQLite file in a hub's state directory."""

_DRIVERS: Final = {
    "postgresql": "postgresql+asyncpg",
    "postgres": "postgresql+asyncpg",
    "sqlite": "sqlite+aiosqlite",
}


def database_address(url: str, state_dir: Path | None) -> str:
    """The SQLAlchemy URL of the hub's database.

    `url`: the setting `database_url`. Without `url`, SQLite in `state_dir`; without both, SQLite in
    a temporary file.
    """
    if url:
        return with_driver(url)
    return "sqlite+aiosqlite://" if state_dir is None else sqlite_address(state_dir / DATABASE_FILE)


def sqlite_address(path: Path) -> str:
    return f"sqlite+aiosqlite:///{path}"


def with_driver(url: str) -> str:
    """`url` with the async database driver in its scheme, as SQLAlchemy needs it."""
    scheme, separator, rest = url.partition("://")
    driver = _DRIVERS.get(scheme.partition("+")[0])
    if not separator or driver is None:
        raise InvalidSetting(
            f"database_url starts with {scheme!r}; use postgresql://user:password@host/name or "
            "sqlite:///file"
        )
    return f"{driver}://{rest}"


def described_address(url: str) -> str:
    """Kind, host and name of the database for messages, without user and password."""
    parts = urlsplit(url)
    name = parts.path.lstrip("/")
    return f"{parts.scheme.partition('+')[0]} at {parts.hostname or parts.path}" + (
        f", {name}" if parts.hostname else ""
    )
