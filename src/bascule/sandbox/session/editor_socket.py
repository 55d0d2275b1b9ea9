"""A unix socket on which VS Code's extension asks the session for what VS Code cannot know.

Each request and each answer is a line of JSON. `{"get": "ports"}` is answered with `ports`,
`{"get": "screenshot"}` with `png` in base64, and a failure with `error`: `code` and `message`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from bascule.core.contracts import Closable
from bascule.core.errors import BasculeError, InternalError, InvalidRequest
from bascule.serving.sockets import stop_accepting, unix_listener

logger = logging.getLogger(__name__)

SOCKET: Final = "editor.sock"
_MAX_REQUEST: Final = 4096
_MAX_CONNECTIONS: Final = 16

Answer = Callable[[], Awaitable[Mapping[str, Any]]]


class EditorSocket(Closable):
    """Answers requests from `start` until `aclose`. One request per connection."""

    def __init__(self, path: Path, answers: Mapping[str, Answer]) -> None:
        """`answers`: what is returned, by the `get` of the request."""
        self._path = path
        self._answers = answers
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        listening = await asyncio.to_thread(unix_listener, self._path, mode=0o600)
        listening.setblocking(False)
        self._server = await asyncio.start_unix_server(
            self._accept, sock=listening, limit=_MAX_REQUEST
        )

    async def aclose(self) -> None:
        if self._server is None:
            return
        await stop_accepting(self._server)
        for task in tuple(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None
        await asyncio.to_thread(self._path.unlink, missing_ok=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._serving) >= _MAX_CONNECTIONS:
            writer.close()
            return
        self._serving.add(task)
        try:
            writer.write(json.dumps(await self._answered(reader)).encode() + b"\n")
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            logger.debug("a client of the editor's socket is gone")
        finally:
            self._serving.discard(task)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _answered(self, reader: asyncio.StreamReader) -> Mapping[str, Any]:
        try:
            return await self._answer_to(await reader.readline())
        except BasculeError as error:
            return {"error": {"code": error.code, "message": error.message}}
        except Exception:  # the outermost code of a request
            logger.exception("a request of VS Code's extension failed")
            failed = InternalError("The session could not answer; see its log")
            return {"error": {"code": failed.code, "message": failed.message}}

    async def _answer_to(self, line: bytes) -> Mapping[str, Any]:
        try:
            wanted = json.loads(line)["get"]
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidRequest("A request is a JSON object with `get`") from error
        answer = self._answers.get(wanted)
        if answer is None:
            raise InvalidRequest(f"There is no {wanted!r}; there are: {', '.join(self._answers)}")
        return await answer()
