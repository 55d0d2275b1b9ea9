"""E2B's service `process.Process`: programs with pipes or on a terminal in a sandbox."""

from __future__ import annotations

import asyncio
import base64
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from bascule.core.contracts import Closable
from bascule.core.errors import ActionTimedOut, InvalidRequest, NoSuchPath, NoSuchProgram
from bascule.core.programs import Program, ProgramOutput, ProgramStatus, TerminalSize
from bascule.core.sessions import SessionId

from ._connect import (
    STREAM,
    UNARY,
    Fields,
    ensure_kind,
    read_envelopes,
    read_message,
    read_single_envelope,
    stream_of_one,
    stream_reply,
    unary_reply,
)
from ._fields import bytes_of, flag_of, list_of, number_of, object_of, text_of, texts_of
from ._sandbox import OpenSandbox
from ._time_limits import TimeLimits

_MAX_TAGS: Final = 10_000
_KEEPALIVE: Final = 90.0
_SIGNALS: Final[Mapping[object, str]] = {
    "SIGNAL_SIGTERM": "SIGTERM",
    15: "SIGTERM",
    "SIGNAL_SIGKILL": "SIGKILL",
    9: "SIGKILL",
}
_CALLS: Final = (
    *("List", "Connect", "Start", "Update", "StreamInput", "SendInput", "SendSignal", "CloseStdin"),
)


class ProcessService(Closable):
    """The calls of the service. Processes keep running when their stream is closed."""

    def __init__(self) -> None:
        self._time_limits = TimeLimits()
        self._tags: OrderedDict[tuple[SessionId, str], str] = OrderedDict()
        """Ids of programs that were started with a tag, the newest last."""

    async def aclose(self) -> None:
        await self._time_limits.aclose()

    async def answer(self, call: str, sandbox: OpenSandbox, request: Request) -> Response | None:
        """The answer to a call; None if there is no such call."""
        if call not in _CALLS:
            return None
        if call in ("Start", "Connect"):
            ensure_kind(request, STREAM)
            message = await read_single_envelope(request)
            stream = self._start if call == "Start" else self._connect
            return stream_reply(stream(sandbox, message, request))
        if call == "StreamInput":
            ensure_kind(request, STREAM)
            # Answer after the body: a streaming response also reads from the request, to notice
            # that the client disconnects.
            return await stream_of_one(self._stream_input(sandbox, request))
        ensure_kind(request, UNARY)
        message = await read_message(request)
        match call:
            case "List":
                return unary_reply(await self._list(sandbox))
            case "Update":
                if message.get("pty") is not None:
                    program = await self._find(sandbox, message)
                    await program.resize(_size(object_of(message, "pty")))
            case "SendInput":
                program = await self._find(sandbox, message)
                await _write(program, object_of(message, "input"))
            case "SendSignal":
                signal = _SIGNALS.get(message.get("signal"))
                if signal is None:
                    raise InvalidRequest(
                        f"`signal` is {message.get('signal')!r}; it must be SIGNAL_SIGTERM or "
                        "SIGNAL_SIGKILL"
                    )
                await (await self._find(sandbox, message)).signal(signal)
            case "CloseStdin":
                await (await self._find(sandbox, message)).close_stdin()
        return unary_reply({})

    async def _list(self, sandbox: OpenSandbox) -> Fields:
        tags = {id_: tag for (session, tag), id_ in self._tags.items() if session == sandbox.id}
        found = await sandbox.runtime.list_programs()
        return {"processes": [_info(each, tags.get(each.id)) for each in found if each.is_running]}

    async def _start(
        self, sandbox: OpenSandbox, message: Fields, request: Request
    ) -> AsyncGenerator[Fields, None]:
        config = object_of(message, "process")
        command = text_of(config, "cmd")
        if not command:
            raise InvalidRequest("`process.cmd` is missing: the program to start")
        on_terminal = message.get("pty") is not None
        cwd = await sandbox.path(text_of(config, "cwd") or ".")
        limit = _timeout(request)
        try:
            program = await sandbox.runtime.start_program(
                [command, *list_of(config, "args")],
                env={**await sandbox.environment(cwd), **texts_of(config, "envs")},
                cwd=cwd,
                user=sandbox.account_of(request),
                terminal=_size(object_of(message, "pty")) if on_terminal else None,
            )
        except NoSuchPath as error:  # clients would take "not found" for a missing process
            raise InvalidRequest(error.message) from error
        if tag := text_of(message, "tag"):
            self._tags[sandbox.id, tag] = program.id
            while len(self._tags) > _MAX_TAGS:
                self._tags.popitem(last=False)
        if not on_terminal and not flag_of(message, "stdin", default=True):
            await program.close_stdin()
        if limit is not None:
            self._time_limits.start(program, limit)
        async with aclosing(_events(program, await program.status(), request, (0, 0))) as events:
            async for event in events:
                yield event
        if self._time_limits.finish(program):
            raise ActionTimedOut(f"The process was ended after {limit} seconds")

    async def _connect(
        self, sandbox: OpenSandbox, message: Fields, request: Request
    ) -> AsyncGenerator[Fields, None]:
        """Follow a running process. Output from before this call is not repeated."""
        program = await self._find(sandbox, message)
        status, limit = await program.status(), _timeout(request)
        now = status.stdout, status.stderr
        async with aclosing(_events(program, status, request, now, limit=limit)) as events:
            async for event in events:
                yield event

    async def _stream_input(self, sandbox: OpenSandbox, request: Request) -> None:
        program: Program | None = None
        async for message in read_envelopes(request):
            if message.get("start") is not None:
                program = await self._find(sandbox, object_of(message, "start"))
            elif message.get("data") is not None:
                if program is None:
                    raise InvalidRequest("The stream must begin with `start`, to select a process")
                await _write(program, object_of(object_of(message, "data"), "input"))

    async def _find(self, sandbox: OpenSandbox, message: Fields) -> Program:
        """The running process that a message selects. Raises `NoSuchProgram`."""
        selector = object_of(message, "process")
        if tag := text_of(selector, "tag"):
            wanted = f"with the tag {tag!r}"
            program_id = self._tags.get((sandbox.id, tag), "")
        else:
            pid, program_id = number_of(selector, "pid"), ""
            wanted = f"with the PID {pid}"
        for each in await sandbox.runtime.list_programs():
            if each.is_running and (each.id == program_id or (not tag and each.pid == pid)):
                return await sandbox.runtime.find_program(each.id)
        raise NoSuchProgram(f"No process {wanted} runs in the sandbox")


async def _events(
    program: Program,
    status: ProgramStatus,
    request: Request,
    start: tuple[int, int],
    *,
    limit: float | None = None,
) -> AsyncGenerator[Fields, None]:
    """The events of a process until it has ended. `start`: positions in stdout and stderr.

    Raises `ActionTimedOut` after `limit` seconds.
    """
    yield {"event": {"start": {"pid": status.pid}}}
    loop = asyncio.get_running_loop()
    end = None if limit is None else loop.time() + limit
    interval = _keepalive(request)
    output = program.output(stdout=start[0], stderr=start[1])
    coming: asyncio.Task[ProgramOutput] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(output))
            left = interval if end is None else min(interval, max(end - loop.time(), 0))
            done, _ = await asyncio.wait({coming}, timeout=left)
            if end is not None and loop.time() >= end:
                raise ActionTimedOut(f"The connection ended after {limit:g} seconds")
            if not done:
                yield {"event": {"keepalive": {}}}
                continue
            finished, coming = coming, None
            try:
                piece = finished.result()
            except StopAsyncIteration:
                break
            if piece.data:
                name = "pty" if status.has_terminal else piece.stream
                data = base64.b64encode(piece.data).decode()
                yield {"event": {"data": {name: data}}}
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.wait({coming})
        await output.aclose()
    yield {"event": {"end": _end(await program.wait())}}


def _end(code: int) -> Fields:
    if code >= 0:
        return {"exitCode": code, "exited": True, "status": f"exit status {code}"}
    why = f"signal: {-code}"
    return {"exitCode": code, "exited": False, "status": why, "error": why}


def _info(status: ProgramStatus, tag: str | None) -> Fields:
    config = {
        "cmd": status.argv[0],
        "args": list(status.argv[1:]),
        "envs": {},
        "cwd": status.cwd,
    }
    return {"config": config, "pid": status.pid} | ({} if tag is None else {"tag": tag})


async def _write(program: Program, message: Mapping[str, Any]) -> None:
    for name in ("stdin", "pty"):
        if message.get(name) is not None:
            await program.write(bytes_of(message, name))
            return
    raise InvalidRequest("`input` must have `stdin` or `pty`")


def _size(pty: Mapping[str, Any]) -> TerminalSize:
    size = object_of(pty, "size")
    default = TerminalSize()
    return TerminalSize(
        columns=number_of(size, "cols", default=default.columns),
        rows=number_of(size, "rows", default=default.rows),
    )


def _timeout(request: Request) -> float | None:
    """Seconds after which the client wants the call to end."""
    text = request.headers.get("connect-timeout-ms", "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 10):
        raise InvalidRequest(f"`Connect-Timeout-Ms` must be an integer, not {text!r}")
    return int(text) / 1000 or None


def _keepalive(request: Request) -> float:
    text = request.headers.get("keepalive-ping-interval", "")
    return max(float(text), 1.0) if text.isascii() and text.isdecimal() else _KEEPALIVE
