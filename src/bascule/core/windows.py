"""A VS Code window as the hub knows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NewType

WindowId = NewType("WindowId", str)
"""A UUID as text, kept by the window across reloads."""

WindowStatus = Literal["healthy", "unhealthy", "gone"]
"""unhealthy: connected, but its editor does not answer. gone: not connected, not yet forgotten."""

ACTION_LIFE: Final = 3600.0
"""Seconds a window knows the id of an action after it ended. Nobody sends an older one again."""

Remote = Literal["local", "ssh", "wsl", "container", "web"]
"""Where the window's files are, seen from the user's screen."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of a window's workspace."""

    name: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One VS Code window. An id lasts; all else may change while it is open."""

    id: WindowId
    name: str
    folders: Sequence[Folder] = ()
    """Several in a multi-root workspace, none in an empty window."""
    status: WindowStatus = "healthy"
    capabilities: frozenset[str] = frozenset()
    """The action kinds it can do."""
    vscode_version: str = ""
    extension_version: str = ""
    platform: str = ""
    app: str = ""
    remote: Remote = "local"
    owner: str = ""
    session_id: str = ""
    """The session whose own window it is; empty: it is nobody's but its user's."""
    registered_at: str = ""
    last_heartbeat: str = ""
    """When it last showed a sign of life."""
    hosts: int = 1
    """Extension hosts connected for it: two tabs of one window are two."""
