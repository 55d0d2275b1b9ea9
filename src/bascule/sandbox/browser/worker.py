"""The browser worker process, controlled by JSON lines.

Started with `python -P -m bascule.sandbox.browser.worker`.

It listens on its standard input and answers on its standard output, or with `--socket` on the
socket that is its input. The sandbox starts it below a keeper, the VS Code extension over pipes.
When the input ends, so does the browser.

In:  `start {place, settings}` first, then `act {id, kind, args, timeout}` and `cancel {id}`
Out: `ready` or `failed {error}`, then per `act` one `done {id, observation: {kind, content,
     extras}}` or `failed {id, error: {code, message, detail}}`
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from bascule.core.errors import BasculeError, InternalError

from .browser_session import BrowserSession, BrowserSetup
from .settings import BrowserSettings

logger = logging.getLogger(__name__)

LONGEST: Final = 64 << 20
"""Bytes of a message."""


class BrowserWorker:
    """Executes requests as they arrive until its input ends."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._doing: dict[str, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        order = await self._next()
        if order is None:
            return
        session = BrowserSession(_setup(order["place"]), _settings(order["settings"]))
        try:
            try:
                await session.start()
            except BasculeError as error:
                await self._say(op="failed", error=_told(error))
                return
            await self._say(op="ready")
            while (order := await self._next()) is not None:
                self._take(session, order)
        finally:
            for task in self._doing.values():
                task.cancel()
            with suppress(TimeoutError):
                async with asyncio.timeout(3):
                    await session.aclose()

    def _take(self, session: BrowserSession, order: Mapping[str, Any]) -> None:
        if order["op"] == "cancel":
            if (task := self._doing.get(order["id"])) is not None:
                task.cancel()
            return
        doing = asyncio.ensure_future(self._do(session, order))
        self._doing[order["id"]] = doing
        doing.add_done_callback(lambda _: self._doing.pop(order["id"], None))

    async def _do(self, session: BrowserSession, order: Mapping[str, Any]) -> None:
        act = session.browse if order["kind"] == "browse" else session.interact
        try:
            seen = await act(order["args"], order.get("timeout"))
        except BasculeError as error:
            await self._say(op="failed", id=order["id"], error=_told(error))
        except Exception as error:
            logger.exception("the %s action %s failed", order["kind"], order["id"])
            fault = InternalError(f"The browser failed: {error}")
            await self._say(op="failed", id=order["id"], error=_told(fault))
        else:
            await self._say(op="done", id=order["id"], observation=seen)

    async def _next(self) -> dict[str, Any] | None:
        line = await self._reader.readline()
        return json.loads(line) if line else None

    async def _say(self, **message: object) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")
        await self._writer.drain()


def _setup(given: Mapping[str, Any]) -> BrowserSetup:
    return BrowserSetup(
        chromium=given["chromium"],
        working_dir=Path(given["working_dir"]),
        roots=tuple(given.get("roots", ())),
        own=_pairs(given.get("own", ())),
        saves_screenshots=given.get("saves_screenshots", True),
    )


def _settings(given: Mapping[str, Any]) -> BrowserSettings:
    known = {**given, "refused": _pairs(given.get("refused", ()))}
    return BrowserSettings(**known)


def _pairs(given: Any) -> tuple[tuple[str, int], ...]:
    return tuple((str(host), int(port)) for host, port in given)


def _told(error: BasculeError) -> dict[str, Any]:
    return {"code": error.code, "message": error.message, "detail": dict(error.detail)}


async def _main() -> None:
    loop = asyncio.get_running_loop()
    if "--socket" in sys.argv:
        reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=0), limit=LONGEST)
    else:
        reader = asyncio.StreamReader(LONGEST)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        flow, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
        writer = asyncio.StreamWriter(flow, protocol, reader, loop)
    await BrowserWorker(reader, writer).serve()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    asyncio.run(_main())
