"""`/programs/…`: start programs with pipes, follow their output, write to them and end them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, Final

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from bascule.core.errors import AccessDenied, BasculeError, InvalidRequest
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.programs.output_log import OutputReader
from bascule.sandbox.programs.piped_program import PipedProgram
from bascule.sandbox.programs.program_request import ProgramRequest, terminal_size
from bascule.serving.asgi import Receive, Scope, Send, read_body
from bascule.serving.connection import CONNECTION
from bascule.wire import error_to_wire, from_json, to_json
from bascule.wire.programs import (
    MEDIA_TYPE,
    STARTED_BY,
    encode_exit,
    encode_output,
    encode_status,
    with_length,
)

from .requests import json_body, json_response, number, text
from .sse import HEARTBEAT
from .system import SystemInfo

_PROXY_HEADER: Final = "x-forwarded-for"
"""Header of every request that a reverse proxy passes on."""
_STARTED_BY: Final = STARTED_BY.lower().encode()
_WRITE_TIMEOUT: Final = 5.0
"""Seconds that a write waits for a program that reads nothing. The answer says how much it took."""
_MAX_WAIT: Final = 20.0
"""Maximum seconds of one request that waits for the end of a program."""
_GOING_AWAY: Final = 1001


class ProgramRoutes:
    """The endpoints of programs. `finish` ends the ones that wait or stream."""

    def __init__(self, sandbox: Sandbox, system: SystemInfo) -> None:
        self._sandbox = sandbox
        self._system = system
        self._readers: set[OutputReader] = set()
        self._stopping = asyncio.Event()

    def table(self) -> list[BaseRoute]:
        one = "/programs/{id}"
        return [
            Route("/programs", self.start, methods=["POST"]),
            Route("/programs", self.list_programs, methods=["GET"]),
            Route("/programs", self.end_started_by, methods=["DELETE"]),
            Route(one, self.show, methods=["GET"]),
            Route(one, self.kill, methods=["DELETE"]),
            Route(f"{one}/wait", self.wait, methods=["GET"]),
            Route(f"{one}/stdin", self.write, methods=["POST"]),
            Route(f"{one}/stdin", self.close_stdin, methods=["DELETE"]),
            Route(f"{one}/signal", self.signal, methods=["POST"]),
            Route(f"{one}/terminal", self.resize, methods=["POST"]),
            Route(f"{one}/output", _Asgi(self.stream_output), methods=["GET"]),
            WebSocketRoute(f"{one}/socket", _Asgi(self.serve_socket)),
        ]

    def finish(self) -> None:
        self._stopping.set()
        for reader in tuple(self._readers):
            reader.finish()

    async def start(self, request: Request) -> Response:
        body = ProgramRequest.from_json(await json_body(request))
        self._system.touch()
        started_by = request.scope["bascule.headers"].get(_STARTED_BY, b"").decode("latin-1")
        program = await self._sandbox.programs.start(body, started_by=started_by)
        return _describe(program)

    async def list_programs(self, _: Request) -> Response:
        found = await self._sandbox.programs.list_programs()
        return json_response({"programs": [encode_status(each) for each in found]})

    async def end_started_by(self, request: Request) -> Response:
        """End the programs of a token that has ended or lost the access. Only for the hub."""
        if _PROXY_HEADER in request.headers:
            raise AccessDenied("Only the hub itself may end the programs of a token")
        started_by = text(request, "started_by")
        if not started_by:
            raise InvalidRequest("`started_by` is empty; it must be the id of a token")
        is_revoked = request.query_params.get("revoked") != "0"
        ended = await self._sandbox.programs.end_started_by(started_by, is_revoked=is_revoked)
        return json_response({"ended": ended})

    async def show(self, request: Request) -> Response:
        return _describe(self._program(request))

    async def kill(self, request: Request) -> Response:
        program = self._program(request)
        await program.kill()
        return _describe(program)

    async def wait(self, request: Request) -> Response:
        """Answer when the program has ended, or after 20 seconds."""
        program = self._program(request)
        ending = asyncio.ensure_future(program.wait())
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait(
                {ending, stopping}, timeout=_MAX_WAIT, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            ending.cancel()
            stopping.cancel()
        return _describe(program)

    async def write(self, request: Request) -> Response:
        """Write the body to stdin, and answer with how much of it the program has accepted."""
        program, start = self._program(request), number(request, "start")
        data = await read_body(request.receive)
        self._system.touch()
        written = await program.stdin.write(data, start=start, timeout=_WRITE_TIMEOUT)
        return json_response({"written": written, "stdin": program.stdin.accepted})

    async def close_stdin(self, request: Request) -> Response:
        program = self._program(request)
        await program.close_stdin()
        return _describe(program)

    async def signal(self, request: Request) -> Response:
        program, body = self._program(request), await _object(request)
        await program.signal(body.get("signal"))  # type: ignore[arg-type]  # it refuses others
        return _describe(program)

    async def resize(self, request: Request) -> Response:
        program = self._program(request)
        await program.resize(terminal_size(await _object(request)))
        return _describe(program)

    async def stream_output(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        program = self._program(request)
        with self._open_reader(program, request) as reader:
            scope[CONNECTION].when_lost = reader.finish
            headers = [(b"content-type", MEDIA_TYPE.encode()), (b"cache-control", b"no-store")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            try:
                async for frame in _frames(program, reader):
                    body = with_length(frame)
                    await send({"type": "http.response.body", "body": body, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
            finally:
                scope[CONNECTION].when_lost = None

    async def serve_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Frames of output to the client; stdin and requests from it."""
        connection = HTTPConnection(scope)
        program = self._program(connection)
        with self._open_reader(program, connection) as reader:
            await receive()
            await send({"type": "websocket.accept"})
            async with asyncio.TaskGroup() as tasks:
                leaving = tasks.create_task(_ProgramSocket(program, reader, send).serve(receive))
                async for frame in _frames(program, reader):
                    if leaving.done():
                        return
                    await send({"type": "websocket.send", "bytes": frame})
                if not leaving.done():
                    leaving.cancel()
                    code = 1000 if program.has_ended else _GOING_AWAY
                    await send({"type": "websocket.close", "code": code})

    # ----------------------------------------------------------------------------------------

    def _program(self, request: HTTPConnection) -> PipedProgram:
        return self._sandbox.programs.get(request.path_params["id"])

    @contextmanager
    def _open_reader(
        self, program: PipedProgram, request: HTTPConnection
    ) -> Iterator[OutputReader]:
        stdout, stderr = number(request, "stdout") or 0, number(request, "stderr") or 0
        reader = program.open_reader(stdout=stdout, stderr=stderr)
        self._readers.add(reader)
        if self._stopping.is_set():
            reader.finish()
        try:
            yield reader
        finally:
            self._readers.discard(reader)
            reader.close()


class _ProgramSocket:
    """What a client sends on the WebSocket of a program."""

    def __init__(self, program: PipedProgram, reader: OutputReader, send: Send) -> None:
        self._program = program
        self._reader = reader
        self._send = send

    async def serve(self, receive: Receive) -> None:
        """Return when the client has disconnected."""
        while (message := await receive())["type"] != "websocket.disconnect":
            try:
                if (data := message.get("bytes")) is not None:
                    await self._program.write(data)
                else:
                    await self._obey(message.get("text") or "")
            except BasculeError as error:
                await self._send(
                    {
                        "type": "websocket.send",
                        "text": to_json({"error": error_to_wire(error)}).decode(),
                    }
                )
        self._reader.finish()

    async def _obey(self, request: str) -> None:
        match from_json(request.encode()):
            case {"signal": name}:
                await self._program.signal(name)
            case {"close_stdin": True}:
                await self._program.close_stdin()
            case {"terminal": size}:
                await self._program.resize(terminal_size(size))
            case _:
                raise InvalidRequest(
                    "Send stdin as binary messages, and `signal`, `close_stdin` or `terminal` in "
                    "a JSON object"
                )


class _Asgi:
    """An ASGI app: Starlette passes ASGI through unchanged only to an object, not to a function."""

    def __init__(self, endpoint: Any) -> None:
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._endpoint(scope, receive, send)


async def _frames(program: PipedProgram, reader: OutputReader) -> AsyncIterator[bytes]:
    async for piece in reader.items(heartbeat=HEARTBEAT):
        yield encode_output(piece)
    if program.has_ended:
        yield encode_exit(program.describe())


def _describe(program: PipedProgram) -> Response:
    return json_response(encode_status(program.describe()))


async def _object(request: Request) -> dict[str, Any]:
    body = await json_body(request)
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be an object")
    return body
