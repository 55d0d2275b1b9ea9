"""The warden: a small privileged process that starts sandboxes for a hub without privileges.

`python -P -m bascule.runtime.spawn.local.warden PLACE` reads `LocalSettings` as one line of JSON
from stdin. It answers only the requests in `_HANDLERS`, and only for sessions in the directories of
its settings. PLACE is the descriptor of a connected socket, or the path of a socket to listen on.
The warden serves a connected socket until the socket closes, and listens until SIGTERM. Only the
user `hub_uid` and root may connect to a socket on which the warden listens.
Sandboxes outlive the warden.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from bascule.core.errors import AccessDenied, BasculeError, InternalError, InvalidRequest
from bascule.core.printable import OneLineFormatter
from bascule.core.sessions import SessionId
from bascule.link.json_lines import JsonLines
from bascule.wire.errors import error_to_wire

from .messages import MAX_LINE_BYTES, plan_from_wire
from .sandboxes import Sandboxes
from .settings import LocalSettings

logger = logging.getLogger(__name__)

SendMessage = Callable[[Mapping[str, Any]], None]
_Handler = Callable[[Sandboxes, Mapping[str, Any], Callable[[str], None]], Awaitable[Any]]


async def _start(
    sandboxes: Sandboxes, params: Mapping[str, Any], on_stage: Callable[[str], None]
) -> Any:
    return asdict(await sandboxes.start(plan_from_wire(params["plan"]), on_stage))


async def _running(sandboxes: Sandboxes, *_: Any) -> Any:
    running = [asdict(each) for each in await sandboxes.running()]
    egress = {record.session_id: asdict(record.egress) for record in sandboxes.records}
    return {"running": running, "egress": egress}


async def _describe_machine(sandboxes: Sandboxes, *_: Any) -> Any:
    machine = sandboxes.machine
    return {
        "notices": machine.notices,
        "is_isolated": bool(machine.bubblewrap),
        "has_limits": machine.cgroups is not None,
        "is_root": machine.is_root,
    }


def _id(params: Mapping[str, Any]) -> SessionId:
    return SessionId(params["session_id"])


# These names are sent between processes: the hub and a warden of another version may be connected.
_HANDLERS: Final[Mapping[str, _Handler]] = {
    "look": _describe_machine,
    "start": _start,
    "running": _running,
    "pause": lambda boxes, params, _: boxes.pause(_id(params)),
    "resume": lambda boxes, params, _: boxes.resume(_id(params)),
    "stop": lambda boxes, params, _: boxes.stop(_id(params), params["grace"]),
    "ended": lambda boxes, params, _: boxes.wait_for_unexpected_end(_id(params)),
    "usage": lambda boxes, params, _: _as_dict(boxes.usage(_id(params))),
    "last_words": lambda boxes, params, _: boxes.log_tail(_id(params), params["lines"]),
    "disk": lambda boxes, params, _: boxes.disk(Path(params["directory"])),
    "remove": lambda boxes, params, _: boxes.remove(Path(params["directory"])),
}


async def _as_dict(value: Awaitable[Any]) -> Any:
    return asdict(await value)


class WardenConnection:
    """Answers one hub's requests, each when its work is done.

    Cancels pending requests when the hub disconnects.
    """

    def __init__(self, opening: asyncio.Task[Sandboxes], lines: JsonLines) -> None:
        self._opening = opening
        self._lines = lines
        self._under_way: dict[int, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        try:
            while (request := await self._lines.receive()) is not None:
                self._handle(request)
        finally:
            for task in tuple(self._under_way.values()):
                task.cancel()
            await asyncio.gather(*self._under_way.values(), return_exceptions=True)
            await self._lines.aclose()

    def _handle(self, request: Mapping[str, Any]) -> None:
        number = int(request["id"])
        if request["do"] == "cancel":
            if (task := self._under_way.get(number)) is not None:
                task.cancel()
            return
        task = asyncio.create_task(self._answer(number, request))
        self._under_way[number] = task
        task.add_done_callback(lambda _: self._on_done(number, task))

    def _on_done(self, number: int, task: asyncio.Task[None]) -> None:
        """Runs when a task ends, also if the task was cancelled before it started."""
        self._under_way.pop(number, None)
        if task.cancelled():
            self._send(number, {"cancelled": True})

    def _send(self, number: int, message: Mapping[str, Any]) -> None:
        if self._lines.is_open:
            self._lines.send({"id": number, **message})

    async def _answer(self, number: int, request: Mapping[str, Any]) -> None:
        def send(message: Mapping[str, Any]) -> None:
            self._send(number, message)

        try:
            handler = _HANDLERS.get(request["do"])
            if handler is None:
                raise InvalidRequest(f"The warden does not know the request {request['do']!r}")
            sandboxes = await asyncio.shield(self._opening)
            params = request.get("with", {})
            send({"answer": await handler(sandboxes, params, lambda stage: send({"stage": stage}))})
        except BasculeError as error:
            send({"error": error_to_wire(error)})
        except Exception as error:
            logger.exception("the warden failed at %s", request["do"])
            fault = InternalError(f"The warden failed: {type(error).__name__}: {error}")
            send({"error": error_to_wire(fault)})


async def serve(settings: LocalSettings, link: socket.socket, *, is_listening: bool) -> None:
    """Serve until the connected `link` closes. If `link` is a listening socket, serve until
    SIGTERM."""
    sandboxes = Sandboxes(settings)
    opening = asyncio.create_task(_open_sandboxes(sandboxes))
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # Ctrl-C is for the hub, which ends us
    try:
        if is_listening:
            await _serve_all(settings, opening, link, stopped)
        else:
            lines = await JsonLines.open(link, limit=MAX_LINE_BYTES)
            connection = asyncio.create_task(WardenConnection(opening, lines).serve())
            stop = asyncio.create_task(stopped.wait())
            await asyncio.wait({connection, stop}, return_when=asyncio.FIRST_COMPLETED)
            connection.cancel()
            stop.cancel()
            await asyncio.gather(connection, stop, return_exceptions=True)
    finally:
        with contextlib.suppress(BasculeError, OSError):
            await opening
        await sandboxes.aclose()


async def _open_sandboxes(sandboxes: Sandboxes) -> Sandboxes:
    await sandboxes.open()
    return sandboxes


async def _serve_all(
    settings: LocalSettings,
    opening: asyncio.Task[Sandboxes],
    link: socket.socket,
    stopped: asyncio.Event,
) -> None:
    connections: set[asyncio.Task[None]] = set()

    async def on_connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            _ensure_allowed(writer.get_extra_info("socket"), settings)
        except AccessDenied as error:
            logger.warning("%s", error)
            writer.close()
            return
        connection = asyncio.current_task()
        assert connection is not None
        connections.add(connection)
        try:
            await WardenConnection(opening, JsonLines(reader, writer)).serve()
        except asyncio.CancelledError:
            return  # cancelled below; asyncio's stream callback would log it
        finally:
            connections.discard(connection)

    server = await asyncio.start_unix_server(on_connected, sock=link, limit=MAX_LINE_BYTES)
    try:
        await stopped.wait()
    finally:
        server.close()
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


def _ensure_allowed(peer: socket.socket, settings: LocalSettings) -> None:
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", credentials)
    allowed = {0, os.geteuid()} if settings.hub_uid is None else {0, settings.hub_uid}
    if uid not in allowed:
        raise AccessDenied(f"The user {uid} may not use the warden")


def listening_socket(path: Path, settings: LocalSettings) -> socket.socket:
    """A listening socket at `path`. It accepts connections from the moment at which `path`
    exists."""
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    link = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        link.bind(str(new))
    finally:
        os.umask(before)
    if settings.hub_uid is not None:
        os.chown(new, settings.hub_uid, -1, follow_symlinks=False)
    link.listen()
    new.rename(path)
    return link


def main() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(OneLineFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler])
    settings = LocalSettings.from_json(sys.stdin.buffer.readline())
    if sys.argv[1].isdigit():
        link = socket.socket(fileno=int(sys.argv[1]))
        link.set_inheritable(False)
    else:
        link = listening_socket(Path(sys.argv[1]), settings)
    asyncio.run(serve(settings, link, is_listening=not sys.argv[1].isdigit()))


if __name__ == "__main__":
    main()
