"""Encodes and decodes windows, as a hub lists them and as they describe themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

from bascule.core.windows import Folder, Remote, Window, WindowId, WindowStatus

from . import _validation_errors


def encode_window(window: Window) -> dict[str, Any]:
    """The window as `GET /api/vscode/instances` lists it."""
    return {
        "connection_id": window.id,
        "workspace_name": window.name,
        "workspace_path": window.folders[0].path if window.folders else "",
        "status": window.status,
        "registered_at": window.registered_at,
        "last_heartbeat": window.last_heartbeat,
        "name": window.name,
        "folders": [{"name": each.name, "path": each.path} for each in window.folders],
        "capabilities": sorted(window.capabilities),
        "vscode_version": window.vscode_version,
        "extension_version": window.extension_version,
        "remote": window.remote,
        "platform": window.platform,
        "app": window.app,
        "owner": window.owner,
        "session_id": window.session_id,
        "hosts": window.hosts,
    }


def decode_window(data: Mapping[str, Any]) -> Window:
    """A window from a hub's list. Raises `InvalidAction` if it is invalid."""
    window_id, status = data.get("connection_id"), data.get("status")
    if not isinstance(window_id, str):
        raise _validation_errors.invalid("window", "connection_id", "a string", window_id)
    if status not in get_args(WindowStatus):
        raise _validation_errors.invalid("window", "status", "a status of a window", status)
    remote = data.get("remote")
    return Window(
        id=WindowId(window_id),
        name=str(data.get("name") or data.get("workspace_name") or ""),
        folders=decode_folders(data.get("folders")) or (),
        status=cast(WindowStatus, status),
        capabilities=frozenset(map(str, data.get("capabilities") or ())),
        vscode_version=str(data.get("vscode_version", "")),
        extension_version=str(data.get("extension_version", "")),
        platform=str(data.get("platform", "")),
        app=str(data.get("app", "")),
        remote=cast(Remote, remote) if remote in get_args(Remote) else "local",
        owner=str(data.get("owner", "")),
        session_id=str(data.get("session_id", "")),
        registered_at=str(data.get("registered_at", "")),
        last_heartbeat=str(data.get("last_heartbeat", "")),
        hosts=int(data.get("hosts", 1)),
    )


def decode_folders(value: object) -> Sequence[Folder] | None:
    """Folders as a window lists them; None if it is not a list of folders."""
    if not isinstance(value, list):
        return None
    return tuple(
        Folder(str(each.get("name", "")), str(each.get("path", "")))
        for each in value
        if isinstance(each, Mapping)
    )
