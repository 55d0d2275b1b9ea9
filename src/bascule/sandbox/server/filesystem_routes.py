"""`/filesystem/…`: describe, list, move, write and watch files."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from bascule.core.actions import FileWrite, Remove
from bascule.core.errors import BasculeError, InvalidRequest
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.files.entries import FileEntries
from bascule.sandbox.files.watching import DirectoryWatch
from bascule.serving.owning_stream import OwningStream
from bascule.wire import error_to_wire, to_json

from .file_routes import absolute
from .guard import WRITE_PATH
from .requests import flag, json_body, json_response, number, spooled_body, text
from .sse import HEARTBEAT

_BLOCK_BYTES: Final = 1 << 20


class FilesystemRoutes:
    """The endpoints of files as a file manager shows them. `finish` ends the watches."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._watches: set[DirectoryWatch] = set()
        self._is_stopping = False

    def table(self) -> list[BaseRoute]:
        return [
            Route("/filesystem/entry", self.describe, methods=["GET"]),
            Route("/filesystem/entries", self.list_entries, methods=["GET"]),
            Route("/filesystem/move", self.move, methods=["POST"]),
            Route(WRITE_PATH, self.write, methods=["POST"]),
            Route("/filesystem/watch", self.watch, methods=["GET"]),
        ]

    def finish(self) -> None:
        self._is_stopping = True
        for each in tuple(self._watches):
            each.finish()

    async def describe(self, request: Request) -> Response:
        path = absolute(text(request, "path"), "path")
        found = await self._sandbox.in_thread(lambda: self._entries.describe(path))
        return json_response(found.to_json())

    async def list_entries(self, request: Request) -> Response:
        path, depth = absolute(text(request, "path"), "path"), number(request, "depth")
        found = await self._sandbox.in_thread(
            lambda: self._entries.list_entries(path, depth=1 if depth is None else depth)
        )
        return json_response({"entries": [each.to_json() for each in found]})

    async def move(self, request: Request) -> Response:
        body = await json_body(request)
        match body:
            case {"source": str(source), "destination": str(destination)}:
                absolute(source, "source")
                absolute(destination, "destination")
            case _:
                raise InvalidRequest('The body must be {"source": path, "destination": path}')
        await self._admit(Remove(source), source)
        await self._admit(FileWrite(destination, ""), destination)
        found = await self._sandbox.in_thread(lambda: self._entries.move(source, destination))
        return json_response(found.to_json())

    async def write(self, request: Request) -> Response:
        """Write the body to a file. The file changes once the whole body has arrived."""
        path = absolute(text(request, "path"), "path")
        await self._admit(FileWrite(path, ""), path)
        async with spooled_body(request, self._sandbox.in_thread) as spool:
            pieces = iter(lambda: spool.read(_BLOCK_BYTES), b"")
            found = await self._sandbox.in_thread(lambda: self._entries.write(path, pieces))
        return json_response(found.to_json())

    async def watch(self, request: Request) -> Response:
        """Changes in a directory as JSON lines: first `{}`, and `{}` again when nothing changes."""
        path, recursive = absolute(text(request, "path"), "path"), flag(request, "recursive")
        paths = await self._sandbox.in_thread(lambda: self._sandbox.files.paths)
        watch = DirectoryWatch(paths, is_recursive=recursive)
        async with AsyncExitStack() as stack:
            stack.callback(watch.close)
            await self._sandbox.in_thread(watch.open, path)
            watch.listen()
            self._watches.add(watch)
            stack.callback(self._watches.discard, watch)
            if self._is_stopping:
                watch.finish()
            owned = stack.pop_all()
        return OwningStream(self._lines(watch), owned, media_type="application/x-ndjson")

    @property
    def _entries(self) -> FileEntries:
        return self._sandbox.files.entries

    async def _admit(self, action: FileWrite | Remove, path: str) -> None:
        """Raises `ConsentDenied` if a file is protected by the rules for commands."""
        if self._sandbox.gate is not None:
            await self._sandbox.gate.admit_changes(action, [path])

    async def _lines(self, watch: DirectoryWatch) -> AsyncGenerator[bytes, None]:
        try:
            yield b"{}\n"
            async for each in watch.changes(HEARTBEAT):
                value = {} if each is None else {"path": each.path, "type": each.type}
                yield to_json(value) + b"\n"
        except BasculeError as error:
            yield to_json({"error": error_to_wire(error)}) + b"\n"
