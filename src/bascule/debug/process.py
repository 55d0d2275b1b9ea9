"""The adapter's client of a debuggee: its process, its output and the connection to it."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bascule.core.errors import ExecutionError, SandboxDied, UsageError
from bascule.link.json_lines import JsonLineRequests, JsonLines, Message

OnEvent = Callable[[str, Mapping[str, Any]], None]
OnOutput = Callable[[str, str], None]
_MAX_MESSAGE: Final = 1 << 26
"""Maximum bytes of a message from the debuggee."""
_DRAIN: Final = 1.0
"""Seconds to wait for output after the exit: a program the net started may keep the pipe open."""
_KILLED_WITH_ADAPTER: Final = """\
exec 3<&0 </dev/null
( ( read -r _ <&3; kill -9 "-$$" ) >/dev/null 2>&1 & )
exec 3<&-
exec "$@"
"""
"""Runs a command whose process group is killed when the adapter exits and its pipe to stdin closes.

The adapter may be killed while the net runs code that blocks all other threads. So a shell in the
net's process group waits for the end of the pipe. The shell is a grandchild of the net, so that
the net does not get a child that it did not start.
"""


class DebuggeeProcess:
    """Call `start`, then `request`. `wait` returns after the exit, when all output was read."""

    def __init__(self, on_event: OnEvent, on_output: OnOutput) -> None:
        self._on_event = on_event
        self._on_output = on_output
        self._process: asyncio.subprocess.Process | None = None
        self._requests: JsonLineRequests | None = None
        self._readers: list[asyncio.Task[None]] = []
        self._lifetime_pipe: int | None = None
        """The adapter's end of the pipe. Closing it ends the process group."""

    async def start(
        self,
        command: Sequence[str],
        options: Mapping[str, Any],
        *,
        cwd: str | None,
        env: Mapping[str, str | None],
    ) -> None:
        """Start `command` with one more argument: the number of a socket's descriptor. It first
        reads `options` from this socket."""
        await asyncio.to_thread(_ensure_startable, command[0], cwd)
        ours, theirs = socket.socketpair()
        pipe_end, self._lifetime_pipe = os.pipe()
        # Not asyncio's pipes: with those, `Process.wait` would also wait for the pipes to close.
        outs = {category: os.pipe() for category in ("stdout", "stderr")}
        given = [theirs.detach(), pipe_end, *(writing for _, writing in outs.values())]
        try:
            self._process = await asyncio.create_subprocess_exec(
                *("/bin/sh", "-c", _KILLED_WITH_ADAPTER, "sh", *command),
                str(given[0]),
                stdin=pipe_end,
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
        lines = await JsonLines.open(ours, limit=_MAX_MESSAGE)
        lines.send(options)
        self._requests = JsonLineRequests(lines, lost=_exited, on_event=self._on_message)
        self._readers = [
            asyncio.create_task(self._requests.wait_closed()),
            *(
                asyncio.create_task(self._pass_on(reading, category))
                for category, (reading, _) in outs.items()
            ),
        ]

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def request(self, do: str, **more: Any) -> Any:
        """Send a request. Raises `UsageError` with the debuggee's message if it fails."""
        if self._requests is None:
            raise _exited()
        answer = await self._requests.request({"do": do, **more})
        if "error" in answer:
            raise UsageError(answer["error"])
        return answer["result"]

    async def wait(self) -> int:
        assert self._process is not None
        status = await self._process.wait()
        await asyncio.wait(self._readers, timeout=_DRAIN)
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        if self._requests is not None:
            await self._requests.aclose()
        return status if status >= 0 else 128 - status

    def kill(self) -> None:
        """Kill the process and the programs it has started."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, 9)

    def close(self) -> None:
        """Kill the process, and programs it started that are still running."""
        self.kill()
        if self._lifetime_pipe is not None:
            os.close(self._lifetime_pipe)
            self._lifetime_pipe = None

    def _on_message(self, message: Message) -> None:
        self._on_event(message["event"], message)

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


def _exited() -> SandboxDied:
    return SandboxDied("The debuggee has exited")


def _ensure_startable(program: str, cwd: str | None) -> None:
    if cwd is not None and not Path(cwd).is_dir():
        raise UsageError(f"The directory to run the net in, {cwd}, does not exist")
    if shutil.which(program) is None:
        raise UsageError(f"There is no program {program} to run the net with")


def _environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    """Our environment with `changes`; None removes a variable."""
    environ = {**os.environ, "PYTHONUNBUFFERED": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    for name, value in changes.items():
        if value is None:
            environ.pop(name, None)
        elif isinstance(value, str):
            environ[name] = value
        else:
            raise ExecutionError(f"The variable {name} must be a string, not {value!r}")
    return environ
