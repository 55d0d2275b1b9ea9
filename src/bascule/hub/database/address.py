"""The address of a hub's database."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from bascule.core.errors import InvalidSetting

DATABASE: Final = "hub.sqlite"
"""The file's name in a hub's state directory."""

_DRIVERS: Final = {
    "postgresql": "postgresql+asyncpg",
    "postgres": "postgresql+asyncpg",
    "sqlite": "sqlite+aiosqlite",
}


def database_address(url: str, state_dir: Path | None) -> str:
    """The database for these settings; without `url` and `state_dir`, a temporary one."""
    if url:
        return with_driver(url)
    return "sqlite+aiosqlite://" if state_dir is None else sqlite_address(state_dir / DATABASE)


def sqlite_address(path: Path) -> str:
    return f"sqlite+aiosqlite:///{path}"


def with_driver(url: str) -> str:
    """The address as people write it, with the database driver added."""
    scheme, separator, rest = url.partition("://")
    driver = _DRIVERS.get(scheme.partition("+")[0])
    if not separator or driver is None:
        raise InvalidSetting(
            f"database_url begins with {scheme!r}; it can be postgresql://user:password@host/name "
            "or sqlite:///file"
        )
    return f"{driver}://{rest}"


def shown(url: str) -> str:
    """The address without its password, for messages."""
    parts = urlsplit(url)
    name = parts.path.lstrip("/")
    return f"{parts.scheme.partition('+')[0]} at {parts.hostname or parts.path}" + (
        f", {name}" if parts.hostname else ""
    )
