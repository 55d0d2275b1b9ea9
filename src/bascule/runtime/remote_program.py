"""A program with pipes in a remote sandbox."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any, Final

from bascule.core.errors import InvalidAction, RemoteError, SandboxUnreachable
from bascule.core.programs import (
    Program,
    ProgramOutput,
    ProgramStatus,
    ProgramStream,
    TerminalSize,
    missed_at_end,
)
from bascule.link.http import HttpClient, StreamedReply, target
from bascule.wire import from_json, to_json
from bascule.wire.programs import (
    FrameKind,
    FrameReader,
    OutputFrame,
    decode_exit,
    decode_status,
)

_BLOCK_BYTES: Final = 1 << 20
"""Maximum bytes of stdin in one request."""
_TIMEOUT: Final = 60.0
_JSON: Final = {"Content-Type": "application/json"}
_RAW: Final = {"Content-Type": "application/octet-stream"}

EnsureOk = Callable[[int, bytes], None]
"""Raises the error in an answer, if it is one."""


class RemoteProgram(Program):
    """A program of the sandbox behind `http`. `RemoteRuntime` creates it."""

    def __init__(self, http: HttpClient, program_id: str, ensure_ok: EnsureOk) -> None:
        self._http = http
        self._id = program_id
        self._ensure_ok = ensure_ok

    @property
    def id(self) -> str:
        return self._id

    async def status(self) -> ProgramStatus:
        return decode_status(await self._ask("GET", ""))

    async def write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[await self._write(bytes(left[:_BLOCK_BYTES])) :]

    async def close_stdin(self) -> None:
        await self._ask("DELETE", "/stdin")

    async def signal(self, name: str) -> None:
        await self._ask("POST", "/signal", to_json({"signal": name}), _JSON)

    async def resize(self, size: TerminalSize) -> None:
        body = {"columns": size.columns, "rows": size.rows}
        await self._ask("POST", "/terminal", to_json(body), _JSON)

    async def output(
        self, *, stdout: int = 0, stderr: int = 0
    ) -> AsyncGenerator[ProgramOutput, None]:
        seen: dict[ProgramStream, int] = {"stdout": stdout, "stderr": stderr}
        url_path = target(f"/programs/{self._id}/output", stdout=stdout, stderr=stderr)
        async with self._http.stream("GET", url_path, timeout=_TIMEOUT) as reply:
            if reply.status != 200:
                self._ensure_ok(reply.status, await reply.read())
            async for frame in _frames(reply):
                if frame.kind is FrameKind.EXITED:
                    ended = decode_exit(frame)
                    ends: Mapping[ProgramStream, int] = {
                        "stdout": ended.stdout,
                        "stderr": ended.stderr,
                    }
                    for missed in missed_at_end(ends, seen):
                        yield missed
                    return
                if (stream := frame.stream) is not None:
                    dropped = max(frame.position - seen[stream], 0)
                    seen[stream] = frame.position + len(frame.data)
                    yield ProgramOutput(stream, frame.position, frame.data, dropped)
        raise SandboxUnreachable(
            f"{self._http.url} ended the output of the program {self._id} early", sent=True
        )

    async def wait(self) -> int:
        while True:
            status = decode_status(await self._ask("GET", "/wait"))
            if status.exit_code is not None:
                return status.exit_code

    async def kill(self) -> int:
        status = decode_status(await self._ask("DELETE", ""))
        return await self.wait() if status.exit_code is None else status.exit_code

    async def _write(self, data: bytes) -> int:
        answer = await self._ask("POST", "/stdin", data, _RAW)
        written = answer.get("written") if isinstance(answer, dict) else None
        if not isinstance(written, int) or not 0 <= written <= len(data):
            raise RemoteError(f"The answer to a write is {answer!r}", remote_code="")
        return written

    async def _ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        where = target(f"/programs/{self._id}{path}")
        reply = await self._http.request(
            method, where, body=body, headers=headers, timeout=_TIMEOUT
        )
        self._ensure_ok(reply.status, reply.body)
        return parsed(reply.body)


def parsed(body: bytes) -> Any:
    """The JSON of an answer. Raises `RemoteError` for anything else."""
    try:
        return from_json(body)
    except InvalidAction as error:
        raise RemoteError(f"The answer is not JSON: {error.message}", remote_code="") from error


async def _frames(reply: StreamedReply) -> AsyncIterator[OutputFrame]:
    reader = FrameReader()
    async for chunk in reply.chunks():
        for frame in reader.feed(chunk):
            yield frame
