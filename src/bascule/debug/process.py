"""The adapter's client of a debuggee: its process, its output and the connection to it."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import itertools
import json
import os
import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bascule.core.errors import ExecutionError, SandboxDied, UsageError

OnEvent = Callable[[str, Mapping[str, Any]], None]
OnOutput = Callable[[str, str], None]
_DRAIN = 1.0
"""Seconds for output after the end: a program the net has left behind may hold the pipe."""
_LEASHED: Final = """\
exec 3<&0 </dev/null
( ( read -r _ <&3; kill -9 "-$$" ) >/dev/null 2>&1 & )
exec 3<&-
exec "$@"
"""
"""Runs a command whose process group ends with the adapter, whose end of the pipe is on stdin.

The adapter may be killed, and the net busy in code that lets no thread of its own run. So a shell
in the net's process group waits for the end of the pipe. It is a grandchild, so that the net does
not find a child that it did not start.
"""


class DebuggeeProcess:
    """Call `start`, then `request`; `wait` returns when it has exited and its output was read."""

    def __init__(self, on_event: OnEvent, on_output: OnOutput) -> None:
        self._on_event = on_event
        self._on_output = on_output
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count(1)
        self._readers: list[asyncio.Task[None]] = []
        self._leash: int | None = None
        """Our end of the pipe: once it is closed, the group of the process ends."""

    async def start(
        self,
        command: Sequence[str],
        options: Mapping[str, Any],
        *,
        cwd: str | None,
        env: Mapping[str, str | None],
    ) -> None:
        """`command` is given the number of a descriptor, on which it reads `options` first."""
        await asyncio.to_thread(_ensure_startable, command[0], cwd)
        ours, theirs = socket.socketpair()
        leash, self._leash = os.pipe()
        # Pipes of our own: asyncio's would make the end of the process wait for theirs.
        outs = {category: os.pipe() for category in ("stdout", "stderr")}
        given = [theirs.detach(), leash, *(writing for _, writing in outs.values())]
        try:
            self._process = await asyncio.create_subprocess_exec(
                *("/bin/sh", "-c", _LEASHED, "sh", *command),
                str(given[0]),
                stdin=leash,
                stdout=outs["stdout"][1],
                stderr=outs["stderr"][1],
                pass_fds=[given[0]],
                cwd=cwd,
                env=_environment(env),
                start_new_session=True,
            )
        finally:
            for descriptor in given:
                os.close(descriptor)
        reader, self._writer = await asyncio.open_connection(sock=ours, limit=1 << 26)
        self._writer.write(json.dumps(options).encode() + b"\n")
        self._readers = [asyncio.create_task(self._listen(reader))]
        for category, (reading, _) in outs.items():
            self._readers.append(asyncio.create_task(self._pass_on(reading, category)))

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def request(self, do: str, **more: Any) -> Any:
        """Send a request. Raises `UsageError` with the debuggee's message if it fails."""
        if self._writer is None or self._writer.is_closing():
            raise SandboxDied("The debuggee has exited")
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        self._writer.write(json.dumps({"id": number, "do": do, **more}).encode() + b"\n")
        return await answer

    async def wait(self) -> int:
        assert self._process is not None
        status = await self._process.wait()
        await asyncio.wait(self._readers, timeout=_DRAIN)
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        if self._writer is not None:
            self._writer.close()
        return status if status >= 0 else 128 - status

    def kill(self) -> None:
        """End it and the programs it has started."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, 9)

    def close(self) -> None:
        """End it, and the programs it has left behind."""
        self.kill()
        if self._leash is not None:
            os.close(self._leash)
            self._leash = None

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                message = json.loads(line)
                if "event" in message:
                    self._on_event(message["event"], message)
                else:
                    self._answer(message)
        except ConnectionError:
            pass  # killed with something unread
        finally:
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(SandboxDied("The debuggee has exited"))
            self._answers.clear()

    def _answer(self, message: Mapping[str, Any]) -> None:
        answer = self._answers.pop(message["id"], None)
        if answer is None or answer.done():
            return
        if "error" in message:
            answer.set_exception(UsageError(message["error"]))
        else:
            answer.set_result(message["result"])

    async def _pass_on(self, descriptor: int, category: str) -> None:
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
        )
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        try:
            while data := await reader.read(1 << 16):
                text = decoder.decode(data)
                if text:
                    self._on_output(category, text)
        finally:
            transport.close()


def _ensure_startable(program: str, cwd: str | None) -> None:
    if cwd is not None and not Path(cwd).is_dir():
        raise UsageError(f"The directory to run the net in, {cwd}, is not there")
    if shutil.which(program) is None:
        raise UsageError(f"There is no program {program} to run the net with")


def _environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    """Ours with `changes`; None takes a variable out."""
    environ = {**os.environ, "PYTHONUNBUFFERED": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    for name, value in changes.items():
        if value is None:
            environ.pop(name, None)
        elif isinstance(value, str):
            environ[name] = value
        else:
            raise ExecutionError(f"The variable {name} is a text, not {value!r}")
    return environ
