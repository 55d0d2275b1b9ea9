"""A VS Code window as the hub knows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NewType

WindowId = NewType("WindowId", str)
"""A UUID as text, kept by the window across reloads."""

WindowStatus = Literal["healthy", "unhealthy", "gone"]
"""unhealthy: connected, but the editor does not respond. gone: disconnected; the hub still
remembers the window and removes it after a while."""

ACTION_LIFE: Final = 3600.0
"""Seconds a window remembers the id of an action after it ended. An action first sent longer ago
than this is never sent again, since the window could run it twice."""

Remote = Literal["local", "ssh", "wsl", "container", "web"]
"""Where the window's files are, relative to the machine of the user: on it (`local`), or reached
through a VS Code remote."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of a window's workspace."""

    name: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One VS Code window. The id never changes; every other field may change while it is open."""

    id: WindowId
    name: str
    folders: Sequence[Folder] = ()
    """The folders of the workspace: several in a multi-root workspace, none in an empty window."""
    status: WindowStatus = "healthy"
    capabilities: frozenset[str] = frozenset()
    """The action kinds this window supports."""
    vscode_version: str = ""
    extension_version: str = ""
    platform: str = ""
    app: str = ""
    remote: Remote = "local"
    owner: str = ""
    session_id: str = ""
    """The session this window belongs to; empty for a window that a user opened."""
    registered_at: str = ""
    last_heartbeat: str = ""
    """When the hub last received a heartbeat from the window."""
    hosts: int = 1
    """Number of extension hosts connected for this window. Two browser tabs of one window count
    as two."""
