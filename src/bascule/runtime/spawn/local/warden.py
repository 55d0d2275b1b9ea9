"""The warden: the small process with the rights that sandboxes need, so that the hub needs none.

`python -P -m bascule.runtime.spawn.local.warden PLACE` with `LocalSettings` as one line of JSON on
standard input. It answers the questions in `_DOES` and no others, for sessions in the directories
it was told of and no others. PLACE is a descriptor of a connected socket, served until that
closes, or the path of a socket to listen on: whoever is `hub_uid` may ask there, until SIGTERM.
Sandboxes outlive it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
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
from bascule.wire.errors import error_to_wire

from .messages import LONGEST, plan_from_wire
from .sandboxes import Sandboxes
from .settings import LocalSettings

logger = logging.getLogger(__name__)

Tell = Callable[[Mapping[str, Any]], None]
_Do = Callable[[Sandboxes, Mapping[str, Any], Callable[[str], None]], Awaitable[Any]]


async def _start(
    sandboxes: Sandboxes, given: Mapping[str, Any], on_stage: Callable[[str], None]
) -> Any:
    return asdict(await sandboxes.start(plan_from_wire(given["plan"]), on_stage))


async def _running(sandboxes: Sandboxes, *_: Any) -> Any:
    running = [asdict(each) for each in await sandboxes.running()]
    egress = {record.session_id: asdict(record.egress) for record in sandboxes.records}
    return {"running": running, "egress": egress}


async def _look(sandboxes: Sandboxes, *_: Any) -> Any:
    machine = sandboxes.machine
    return {
        "notices": machine.notices,
        "is_isolated": bool(machine.bubblewrap),
        "has_limits": machine.cgroups is not None,
        "is_root": machine.is_root,
    }


def _id(given: Mapping[str, Any]) -> SessionId:
    return SessionId(given["session_id"])


_DOES: Final[Mapping[str, _Do]] = {
    "look": _look,
    "start": _start,
    "running": _running,
    "pause": lambda boxes, given, _: boxes.pause(_id(given)),
    "resume": lambda boxes, given, _: boxes.resume(_id(given)),
    "stop": lambda boxes, given, _: boxes.stop(_id(given), given["grace"]),
    "ended": lambda boxes, given, _: boxes.ended(_id(given)),
    "usage": lambda boxes, given, _: _as_dict(boxes.usage(_id(given))),
    "last_words": lambda boxes, given, _: boxes.last_words(_id(given), given["lines"]),
    "disk": lambda boxes, given, _: boxes.disk(Path(given["directory"])),
    "remove": lambda boxes, given, _: boxes.remove(Path(given["directory"])),
}


async def _as_dict(value: Awaitable[Any]) -> Any:
    return asdict(await value)


class WardenConnection:
    """One hub's requests, answered as each is done.

    Pending ones are cancelled when the hub leaves.
    """

    def __init__(self, opening: asyncio.Task[Sandboxes], writer: asyncio.StreamWriter) -> None:
        self._opening = opening
        self._writer = writer
        self._under_way: dict[int, asyncio.Task[None]] = {}

    async def hold(self, reader: asyncio.StreamReader) -> None:
        try:
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                while line := await reader.readline():
                    self._take(json.loads(line))
        finally:
            for task in tuple(self._under_way.values()):
                task.cancel()
            await asyncio.gather(*self._under_way.values(), return_exceptions=True)
            self._writer.close()

    def _take(self, question: Mapping[str, Any]) -> None:
        number = int(question["id"])
        if question["do"] == "cancel":
            if (task := self._under_way.get(number)) is not None:
                task.cancel()
            return
        task = asyncio.create_task(self._answer(number, question))
        self._under_way[number] = task
        task.add_done_callback(lambda _: self._on_done(number, task))

    def _on_done(self, number: int, task: asyncio.Task[None]) -> None:
        """Runs for every task, also for one cancelled before it started."""
        self._under_way.pop(number, None)
        if task.cancelled():
            self._tell(number, {"cancelled": True})

    def _tell(self, number: int, what: Mapping[str, Any]) -> None:
        if not self._writer.is_closing():
            self._writer.write(json.dumps({"id": number, **what}).encode() + b"\n")

    async def _answer(self, number: int, question: Mapping[str, Any]) -> None:
        def tell(what: Mapping[str, Any]) -> None:
            self._tell(number, what)

        try:
            do = _DOES.get(question["do"])
            if do is None:
                raise InvalidRequest(f"The warden does not know the request {question['do']!r}")
            sandboxes = await asyncio.shield(self._opening)
            given = question.get("with", {})
            tell({"answer": await do(sandboxes, given, lambda stage: tell({"stage": stage}))})
        except BasculeError as error:
            tell({"error": error_to_wire(error)})
        except Exception as error:
            logger.exception("the warden failed at %s", question["do"])
            fault = InternalError(f"The warden failed: {type(error).__name__}: {error}")
            tell({"error": error_to_wire(fault)})


async def serve(settings: LocalSettings, place: socket.socket, *, is_listening: bool) -> None:
    """Serve until `place` closes; if it listens, until SIGTERM."""
    sandboxes = Sandboxes(settings)
    opening = asyncio.create_task(_opened(sandboxes))
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # typed at the hub, which tells us
    try:
        if is_listening:
            await _serve_all(settings, opening, place, stopped)
        else:
            reader, writer = await asyncio.open_connection(sock=place, limit=LONGEST)
            talk = asyncio.create_task(WardenConnection(opening, writer).hold(reader))
            stop = asyncio.create_task(stopped.wait())
            await asyncio.wait({talk, stop}, return_when=asyncio.FIRST_COMPLETED)
            talk.cancel()
            stop.cancel()
            await asyncio.gather(talk, stop, return_exceptions=True)
    finally:
        with contextlib.suppress(BasculeError, OSError):
            await opening
        await sandboxes.aclose()


async def _opened(sandboxes: Sandboxes) -> Sandboxes:
    await sandboxes.open()
    return sandboxes


async def _serve_all(
    settings: LocalSettings,
    opening: asyncio.Task[Sandboxes],
    place: socket.socket,
    stopped: asyncio.Event,
) -> None:
    talks: set[asyncio.Task[None]] = set()

    async def on_connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            _ensure_may_ask(writer.get_extra_info("socket"), settings)
        except AccessDenied as error:
            logger.warning("%s", error)
            writer.close()
            return
        talk = asyncio.current_task()
        assert talk is not None
        talks.add(talk)
        try:
            await WardenConnection(opening, writer).hold(reader)
        except asyncio.CancelledError:
            return  # by us, below; the stream's own callback would complain of it
        finally:
            talks.discard(talk)

    server = await asyncio.start_unix_server(on_connected, sock=place, limit=LONGEST)
    try:
        await stopped.wait()
    finally:
        server.close()
        for talk in talks:
            talk.cancel()
        await asyncio.gather(*talks, return_exceptions=True)


def _ensure_may_ask(peer: socket.socket, settings: LocalSettings) -> None:
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", credentials)
    allowed = {0, os.geteuid()} if settings.hub_uid is None else {0, settings.hub_uid}
    if uid not in allowed:
        raise AccessDenied(f"The user {uid} may not use the warden")


def listening(path: Path, settings: LocalSettings) -> socket.socket:
    """A socket that accepts connections from the moment it exists at `path`."""
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    place = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        place.bind(str(new))
    finally:
        os.umask(before)
    if settings.hub_uid is not None:
        os.chown(new, settings.hub_uid, -1, follow_symlinks=False)
    place.listen()
    new.rename(path)
    return place


def main() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(OneLineFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler])
    settings = LocalSettings.from_json(sys.stdin.buffer.readline())
    if sys.argv[1].isdigit():
        place = socket.socket(fileno=int(sys.argv[1]))
        place.set_inheritable(False)
    else:
        place = listening(Path(sys.argv[1]), settings)
    asyncio.run(serve(settings, place, is_listening=not sys.argv[1].isdigit()))


if __name__ == "__main__":
    main()
