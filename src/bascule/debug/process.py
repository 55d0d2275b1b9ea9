"""Runs the debuggee for the debug adapter: starts the process, reads its output, sends requests."""

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
_MAX_MESSAGE_BYTES: Final = 1 << 26
"""Maximum bytes of a message from the debuggee."""
_DRAIN_TIMEOUT: Final = 1.0
"""Seconds to wait for output after the exit: a program the net started may keep the pipe open."""
_KILLED_WITH_ADAPTER: Final = """\
exec 3<&0 </dev/null
( ( read -r _ <&3; kill -9 "-$$" ) >/dev/null 2>&1 & )
exec 3<&-
exec "$@"
"""
"""A shell script that runs a command. When the adapter exits, the pipe at the script's stdin
closes, and the process group of the command is killed.

The adapter may be killed while the net runs code that blocks all other threads. So a shell in the
net's process group waits for the end of the pipe. The process that starts this shell exits at once,
so the shell is not a child of the net, which may wait for all its children.
"""


class DebuggeeProcess:
    """The process of a debuggee. Call `start`, then `request`. `wait` returns after the exit, when
    all output was read."""

    def __init__(self, on_event: OnEvent, on_output: OnOutput) -> None:
        self._on_event = on_event
        self._on_output = on_output
        self._process: asyncio.subprocess.Process | None = None
        self._requests: JsonLineRequests | None = None
        self._readers: list[asyncio.Task[None]] = []
        self._lifetime_pipe: int | None = None
        """The adapter's end of the pipe at the script's stdin. Closing it ends the process
        group."""

    async def start(
        self,
        command: Sequence[str],
        options: Mapping[str, Any],
        *,
        cwd: str | None,
        env: Mapping[str, str | None],
    ) -> None:
        """Start `command` with one more argument: the number of a socket's descriptor. The
        process first reads `options` from this socket."""
        await asyncio.to_thread(_ensure_startable, command[0], cwd)
        adapter_socket, debuggee_socket = socket.socketpair()
        stdin_pipe, self._lifetime_pipe = os.pipe()
        # Not asyncio's pipes: with those, `Process.wait` would also wait for the pipes to close.
        pipes = {category: os.pipe() for category in ("stdout", "stderr")}
        debuggee_descriptor = debuggee_socket.detach()
        inherited = [
            debuggee_descriptor,
            stdin_pipe,
            *(write_end for _, write_end in pipes.values()),
        ]
        try:
            self._process = await asyncio.create_subprocess_exec(
                *("/bin/sh", "-c", _KILLED_WITH_ADAPTER, "sh", *command),
                str(debuggee_descriptor),
                stdin=stdin_pipe,
                stdout=pipes["stdout"][1],
                stderr=pipes["stderr"][1],
                pass_fds=[debuggee_descriptor],
                cwd=cwd,
                env=_environment(env),
                start_new_session=True,
            )
        finally:
            for descriptor in inherited:
                os.close(descriptor)
        lines = await JsonLines.open(adapter_socket, limit=_MAX_MESSAGE_BYTES)
        lines.send(options)
        self._requests = JsonLineRequests(lines, lost=_exited, on_event=self._on_message)
        self._readers = [
            asyncio.create_task(self._requests.wait_closed()),
            *(
                asyncio.create_task(self._pass_on_output(read_end, category))
                for category, (read_end, _) in pipes.items()
            ),
        ]

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def request(self, do: str, **params: Any) -> Any:
        """Send a request and return its result. Raises `UsageError` with the debuggee's message if
        the request fails."""
        if self._requests is None:
            raise _exited()
        answer = await self._requests.request({"do": do, **params})
        if "error" in answer:
            raise UsageError(answer["error"])
        return answer["result"]

    async def wait(self) -> int:
        assert self._process is not None
        status = await self._process.wait()
        await asyncio.wait(self._readers, timeout=_DRAIN_TIMEOUT)
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        if self._requests is not None:
            await self._requests.aclose()
        return status if status >= 0 else 128 - status

    def kill(self) -> None:
        """Kill the process group, if the process is still running."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, 9)

    def close(self) -> None:
        """Kill the process group. After the exit of the process, this kills the programs of the
        group that still run."""
        self.kill()
        if self._lifetime_pipe is not None:
            os.close(self._lifetime_pipe)
            self._lifetime_pipe = None

    def _on_message(self, message: Message) -> None:
        self._on_event(message["event"], message)

    async def _pass_on_output(self, descriptor: int, category: str) -> None:
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
    # The project's general error for a process that has exited; here it is the debuggee's.
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
