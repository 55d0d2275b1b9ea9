"""Chromium's DevTools protocol over a pipe that only the parent process of the browser has.

A DevTools port would let every program of the session control the window.
"""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress
from typing import Any, Final

from bascule.core.contracts import Closable
from bascule.core.errors import NotSupported

SHELL: Final = ("/bin/sh", "-c", 'exec "$0" "$@" 3<&0 4>&0 0</dev/null')
"""Put before the browser's command line: the browser reads messages from descriptor 3 and writes
them to 4. Its stdin is a socket, which is both."""
FLAG: Final = "--remote-debugging-pipe"
_END: Final = b"\0"
_MAX_MESSAGE: Final = 32 << 20
_TIMEOUT: Final = 20.0
"""Seconds for an answer. A browser under load draws its window slowly."""


class DevToolsPipe(Closable):
    """Sends commands to a browser. Start the browser with `SHELL`, `FLAG` and `theirs` as stdin."""

    def __init__(self) -> None:
        self._ours, self.theirs = socket.socketpair()
        self._turn = asyncio.Lock()
        self._last_id = 0
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def screenshot(self) -> str:
        """A PNG picture of the browser's page, in base64.

        Raises `NotSupported` if the browser shows no page or does not answer.
        """
        async with self._turn:
            try:
                async with asyncio.timeout(_TIMEOUT):
                    return await self._screenshot()
            except (TimeoutError, EOFError, OSError) as error:
                raise NotSupported(
                    "The browser of the session's window does not answer; it may be starting"
                ) from error

    async def _screenshot(self) -> str:
        found = await self._ask("Target.getTargets")
        pages = [each["targetId"] for each in found["targetInfos"] if each["type"] == "page"]
        if not pages:
            raise NotSupported("The browser of the session's window shows no page yet")
        target = {"targetId": pages[0], "flatten": True}
        session = (await self._ask("Target.attachToTarget", target))["sessionId"]
        taken = await self._ask("Page.captureScreenshot", {"format": "png"}, session)
        await self._ask("Target.detachFromTarget", {"sessionId": session})
        return str(taken["data"])

    async def _ask(
        self, method: str, params: dict[str, Any] | None = None, session: str = ""
    ) -> dict[str, Any]:
        reader, writer = await self._connect()
        self._last_id += 1
        message: dict[str, Any] = {"id": self._last_id, "method": method, "params": params or {}}
        if session:
            message["sessionId"] = session
        writer.write(json.dumps(message).encode() + _END)
        await writer.drain()
        while True:
            answer = json.loads((await reader.readuntil(_END))[:-1])
            if answer.get("id") == self._last_id:
                break  # everything else is an event, or a late answer
        if "error" in answer:
            raise NotSupported(f"The browser refused {method}: {answer['error'].get('message')}")
        result: dict[str, Any] = answer["result"]
        return result

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            self._ours.setblocking(False)
            self._streams = await asyncio.open_connection(sock=self._ours, limit=_MAX_MESSAGE)
        return self._streams

    async def aclose(self) -> None:
        self.theirs.close()
        if self._streams is None:
            self._ours.close()
            return
        self._streams[1].close()
        with suppress(OSError):
            await self._streams[1].wait_closed()
