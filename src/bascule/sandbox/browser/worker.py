"""The browser worker process, controlled by JSON lines.

Started with `python -P -m bascule.sandbox.browser.worker`.

The worker reads requests from stdin and answers on stdout; with `--socket`, stdin is a socket used
for both. The sandbox starts the worker under a keeper, the VS Code extension starts it with pipes.
At the end of stdin the worker closes the browser and exits.

Requests: `start {place, settings}` first, then `act {id, kind, args, timeout}` and `cancel {id}`.
Answers: `ready` or `failed {error}`, then for each `act` one `done {id, observation: {kind,
content, extras}}` or `failed {id, error: {code, message, detail}}`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from bascule.core.errors import BasculeError, InternalError
from bascule.link.json_lines import JsonLines

from .browser_session import BrowserSession, BrowserSetup
from .settings import BrowserSettings

logger = logging.getLogger(__name__)

_MAX_MESSAGE: Final = 64 << 20
"""Maximum bytes of a message."""


class BrowserWorker:
    """Executes requests as they arrive until its input ends."""

    def __init__(self, lines: JsonLines) -> None:
        self._lines = lines
        self._doing: dict[str, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        request = await self._lines.receive()
        if request is None:
            return
        session = BrowserSession(_setup(request["place"]), _settings(request["settings"]))
        try:
            try:
                await session.start()
            except BasculeError as error:
                await self._send(op="failed", error=_error_message(error))
                return
            await self._send(op="ready")
            while (request := await self._lines.receive()) is not None:
                self._handle(session, request)
        finally:
            for task in self._doing.values():
                task.cancel()
            with suppress(TimeoutError):
                async with asyncio.timeout(3):
                    await session.aclose()

    def _handle(self, session: BrowserSession, request: Mapping[str, Any]) -> None:
        if request["op"] == "cancel":
            if (task := self._doing.get(request["id"])) is not None:
                task.cancel()
            return
        doing = asyncio.ensure_future(self._do(session, request))
        self._doing[request["id"]] = doing
        doing.add_done_callback(lambda _: self._doing.pop(request["id"], None))

    async def _do(self, session: BrowserSession, request: Mapping[str, Any]) -> None:
        act = session.browse if request["kind"] == "browse" else session.interact
        try:
            observation = await act(request["args"], request.get("timeout"))
        except BasculeError as error:
            await self._send(op="failed", id=request["id"], error=_error_message(error))
        except Exception as error:
            logger.exception("the %s action %s failed", request["kind"], request["id"])
            fault = InternalError(f"The browser failed: {error}")
            await self._send(op="failed", id=request["id"], error=_error_message(fault))
        else:
            await self._send(op="done", id=request["id"], observation=observation)

    async def _send(self, **message: object) -> None:
        with suppress(ConnectionError):  # the client has disconnected; `serve` ends the browser
            self._lines.send(message)
            await self._lines.drain()


def _setup(message: Mapping[str, Any]) -> BrowserSetup:
    return BrowserSetup(
        chromium=message["chromium"],
        working_dir=Path(message["working_dir"]),
        roots=tuple(message.get("roots", ())),
        own=_addresses(message.get("own", ())),
        saves_screenshots=message.get("saves_screenshots", True),
    )


def _settings(message: Mapping[str, Any]) -> BrowserSettings:
    fields = {**message, "refused": _addresses(message.get("refused", ()))}
    return BrowserSettings(**fields)


def _addresses(pairs: Any) -> tuple[tuple[str, int], ...]:
    return tuple((str(host), int(port)) for host, port in pairs)


def _error_message(error: BasculeError) -> dict[str, Any]:
    return {"code": error.code, "message": error.message, "detail": dict(error.detail)}


async def _main() -> None:
    loop = asyncio.get_running_loop()
    if "--socket" in sys.argv:
        lines = await JsonLines.open(socket.socket(fileno=0), limit=_MAX_MESSAGE)
    else:
        reader = asyncio.StreamReader(_MAX_MESSAGE)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        flow, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
        lines = JsonLines(reader, asyncio.StreamWriter(flow, protocol, reader, loop))
    await BrowserWorker(lines).serve()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    asyncio.run(_main())
