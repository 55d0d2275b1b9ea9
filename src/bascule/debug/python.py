"""Client of debugpy in the debuggee: stops and variables inside the Python code of a net."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from bascule.core.errors import AccessDenied, SandboxDied, UsageError
from bascule.wire.dap import Decoder, Message, encode

OnEvent = Callable[[str, Mapping[str, Any]], None]


class PythonDebugger:
    """A client of debugpy. This client listens; the debuggee connects and authenticates with a
    token."""

    def __init__(self, on_event: OnEvent) -> None:
        self.token = secrets.token_hex(32)
        self._on_event = on_event
        self._server: asyncio.Server | None = None
        self._connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._writer: asyncio.StreamWriter | None = None
        self._answers: dict[int, asyncio.Future[Message]] = {}
        self._initialized = asyncio.Event()
        self._seq = 0

    async def listen(self) -> int:
        """Start to listen, and return the port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def attach(self, excluded_dirs: tuple[str, ...]) -> None:
        """Wait for the debuggee and prepare for breakpoints. The debuggee continues after
        `finish_configuration`."""
        await self._connected
        assert self._server is not None
        self._server.close()
        answer = await self.request("pydevdAuthorize", {"debugServerAccessToken": None})
        if not secrets.compare_digest(str(answer.get("clientAccessToken")), self.token):
            raise AccessDenied("A connection to the debugger did not present the debuggee's token")
        await self.request(
            "initialize",
            {
                "adapterID": "bascule",
                "clientID": "bascule",
                "pathFormat": "path",
                "linesStartAt1": True,
                "columnsStartAt1": True,
                "supportsVariableType": True,
            },
        )
        rules = [{"path": f"{directory}/**", "include": False} for directory in excluded_dirs]
        await self.request("attach", {"justMyCode": True, "rules": rules, "subProcess": False})
        await self._initialized.wait()

    async def finish_configuration(self) -> None:
        await self.request("configurationDone", {})

    async def request(self, command: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The body of debugpy's response. Raises `UsageError` with debugpy's error message."""
        if self._writer is None:
            raise SandboxDied("The debuggee has exited")
        self._seq += 1
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._answers[self._seq] = answer
        self._writer.write(
            encode(
                {
                    "seq": self._seq,
                    "type": "request",
                    "command": command,
                    "arguments": dict(arguments),
                }
            )
        )
        message = await answer
        if not message.get("success"):
            raise UsageError(str(message.get("message") or f"{command} failed"))
        body: dict[str, Any] = message.get("body") or {}
        return body

    async def aclose(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(ConnectionError):
                await self._writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._writer is not None:
            writer.close()
            return
        self._writer = writer
        self._connected.set_result(None)
        decoder = Decoder()
        try:
            while data := await reader.read(1 << 16):
                for message in decoder.feed(data):
                    self._handle(message)
        except ConnectionError:
            pass  # normal when the debuggee exits
        finally:
            self._writer = None
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(SandboxDied("The debuggee has exited"))
            self._answers.clear()

    def _handle(self, message: Message) -> None:
        if message.get("type") == "response":
            answer = self._answers.pop(int(message.get("request_seq", -1)), None)
            if answer is not None and not answer.done():
                answer.set_result(message)
        elif message.get("type") == "event":
            if message.get("event") == "initialized":
                self._initialized.set()
            self._on_event(str(message.get("event")), message.get("body") or {})
