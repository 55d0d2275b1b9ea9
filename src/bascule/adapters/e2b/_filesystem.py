"""E2B's service `filesystem.Filesystem`: files and directories of a sandbox."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from bascule.core.actions import MakeDir, Remove, RemoveDir
from bascule.core.errors import InvalidRequest, NotADirectory, PathExists
from bascule.core.observations import DirMade, DirRemoved, FileRemoved
from bascule.hub.sessions.sandbox_messages import FileChangeMessage, FileEntryMessage
from bascule.runtime.verbs import expect

from ._connect import (
    STREAM,
    UNARY,
    Fields,
    ensure_kind,
    read_message,
    read_single_envelope,
    stream_reply,
    unary_reply,
)
from ._fields import flag_of, number_of, text_of
from ._sandbox import OpenSandbox
from ._watchers import Watchers

_TYPES: Final = {"file": "FILE_TYPE_FILE", "directory": "FILE_TYPE_DIRECTORY"}
_CHANGES: Final = {
    "create": "EVENT_TYPE_CREATE",
    "write": "EVENT_TYPE_WRITE",
    "remove": "EVENT_TYPE_REMOVE",
    "rename": "EVENT_TYPE_RENAME",
    "chmod": "EVENT_TYPE_CHMOD",
}
_CALLS: Final = (
    *("Stat", "MakeDir", "Move", "ListDir", "Remove", "WatchDir"),
    *("CreateWatcher", "GetWatcherEvents", "RemoveWatcher"),
)


class FilesystemService:
    def __init__(self, watchers: Watchers) -> None:
        self._watchers = watchers

    async def answer(self, call: str, sandbox: OpenSandbox, request: Request) -> Response | None:
        """The answer to a call; None if there is no such call."""
        if call not in _CALLS:
            return None
        if call == "WatchDir":
            ensure_kind(request, STREAM)
            message = await read_single_envelope(request)
            return stream_reply(_watch(sandbox, message))
        ensure_kind(request, UNARY)
        message = await read_message(request)
        match call:
            case "Stat":
                return unary_reply({"entry": await _stat(sandbox, await _path(sandbox, message))})
            case "MakeDir":
                return unary_reply({"entry": await _make(sandbox, message)})
            case "Move":
                return unary_reply({"entry": await _move(sandbox, message)})
            case "ListDir":
                return unary_reply({"entries": await _list(sandbox, message)})
            case "Remove":
                await _remove(sandbox, await _path(sandbox, message))
                return unary_reply({})
            case "CreateWatcher":
                path, recursive = await _path(sandbox, message), flag_of(message, "recursive")
                created = await self._watchers.create(sandbox, path, recursive=recursive)
                return unary_reply({"watcherId": created})
            case "GetWatcherEvents":
                changes = self._watchers.take(sandbox, text_of(message, "watcherId"))
                return unary_reply({"events": [change_json(each) for each in changes]})
            case _:
                await self._watchers.remove(sandbox, text_of(message, "watcherId"))
                return unary_reply({})


async def _stat(sandbox: OpenSandbox, path: str) -> Fields:
    return entry_json(await (await sandbox.client()).entry(path))


async def _make(sandbox: OpenSandbox, message: Fields) -> Fields:
    path = await _path(sandbox, message)
    made = expect(await sandbox.runtime.act(MakeDir(path)), DirMade)
    if not made.created:
        raise PathExists(f"{path} exists already")
    return await _stat(sandbox, path)


async def _move(sandbox: OpenSandbox, message: Fields) -> Fields:
    source = await _path(sandbox, message, "source")
    destination = await _path(sandbox, message, "destination")
    return entry_json(await (await sandbox.client()).move_file(source, destination))


async def _list(sandbox: OpenSandbox, message: Fields) -> list[Fields]:
    path, depth = await _path(sandbox, message), number_of(message, "depth", default=1) or 1
    try:
        found = await (await sandbox.client()).entries(path, depth=depth)
    except NotADirectory as error:
        raise InvalidRequest(error.message) from error
    return [entry_json(each) for each in found]


async def _remove(sandbox: OpenSandbox, path: str) -> None:
    """Remove a file, or a directory with its contents."""
    entry = await (await sandbox.client()).entry(path)
    if entry.type == "directory" and entry.target is None:
        expect(await sandbox.runtime.act(RemoveDir(path, recursive=True)), DirRemoved)
    else:
        expect(await sandbox.runtime.act(Remove(path)), FileRemoved)


async def _watch(sandbox: OpenSandbox, message: Fields) -> AsyncGenerator[Fields, None]:
    path, recursive = await _path(sandbox, message), flag_of(message, "recursive")
    is_started = False
    changes = (await sandbox.client()).watch_files(path, recursive=recursive)
    async with aclosing(changes):
        async for change in changes:
            if not is_started:
                is_started = True
                yield {"start": {}}
            elif change is None:
                yield {"keepalive": {}}
            else:
                yield {"filesystem": change_json(change)}


async def _path(sandbox: OpenSandbox, message: Fields, name: str = "path") -> str:
    text = text_of(message, name)
    if not text and name != "path":
        raise InvalidRequest(f"`{name}` is missing")
    return await sandbox.path(text)


def entry_json(entry: FileEntryMessage) -> Fields:
    """An entry as E2B's clients read it."""
    modified = datetime.fromtimestamp(entry.modified, UTC)
    found: Fields = {
        "name": entry.name,
        "type": _TYPES.get(entry.type, "FILE_TYPE_UNSPECIFIED"),
        "path": entry.path,
        "size": str(entry.size),
        "mode": entry.mode,
        "permissions": entry.permissions,
        "owner": entry.owner,
        "group": entry.group,
        "modifiedTime": modified.isoformat().replace("+00:00", "Z"),
    }
    if entry.target is not None:
        found |= {"symlinkTarget": entry.target, "isSymlink": True}
    return found


def change_json(change: FileChangeMessage) -> Fields:
    return {"name": change.path, "type": _CHANGES[change.type]}
