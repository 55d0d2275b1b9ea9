"""The terminals of ACP: commands that the agent starts by `terminal/create`."""

from __future__ import annotations

import asyncio
import re
import shlex
import signal
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from bascule.core.actions import CmdRun, Interrupt
from bascule.core.contracts import Closable, OutputProgress, Runtime
from bascule.core.errors import BasculeError, InvalidRequest, QuotaExceeded
from bascule.core.observations import CmdOutput, Observation
from bascule.core.programs import Program, ProgramHost

DEFAULT_OUTPUT_BYTES: Final = 1 << 20
MAX_OUTPUT_BYTES: Final = 16 << 20
"""Maximum bytes of output that one terminal keeps."""
MAX_TERMINALS: Final = 64
UNREAD_LIMIT: Final = 15.0
"""Seconds after which a program is ended if the proxy no longer reads its output."""
_NEEDS_SHELL: Final = re.compile(r"[\s|&;<>()$`\"'*?\[\]#~=%{}\\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalRequest:
    """The parameters of `terminal/create`."""

    command: str
    arguments: Sequence[str] = ()
    env: Mapping[str, str]
    cwd: str
    output_bytes: int = DEFAULT_OUTPUT_BYTES

    @classmethod
    def of(cls, params: Mapping[str, Any], *, cwd: str) -> TerminalRequest:
        """Validate parameters. `cwd`: the directory if they have none."""
        command, arguments = params.get("command"), params.get("args") or []
        if not isinstance(command, str) or not command:
            raise InvalidRequest(f"`command` must be a text that is not empty, not {command!r}")
        if not isinstance(arguments, list) or not all(isinstance(each, str) for each in arguments):
            raise InvalidRequest(f"`args` must be a list of texts, not {arguments!r:.200}")
        limit = params.get("outputByteLimit")
        if limit is None:
            limit = DEFAULT_OUTPUT_BYTES
        if type(limit) is not int or limit < 0:
            raise InvalidRequest(f"`outputByteLimit` must be a number of bytes, not {limit!r:.200}")
        directory = params.get("cwd") or cwd
        if not isinstance(directory, str):
            raise InvalidRequest(f"`cwd` must be a text, not {directory!r:.200}")
        return cls(
            command=command,
            arguments=arguments,
            env=_variables(params.get("env") or []),
            cwd=directory,
            output_bytes=min(limit, MAX_OUTPUT_BYTES),
        )

    def moved(self, move: Callable[[str], str]) -> TerminalRequest:
        """The same request with another `cwd`."""
        return replace(self, cwd=move(self.cwd))

    @property
    def argv(self) -> Sequence[str]:
        """The argv to start. Some agents send a bash command line as `command`, without `args`."""
        if not self.arguments and _NEEDS_SHELL.search(self.command):
            return ["bash", "-c", self.command]
        return [self.command, *self.arguments]


class OutputTail:
    """The newest output, `limit` bytes of it, cut between characters."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self.is_truncated = False

    def add(self, data: bytes) -> None:
        self._data += data
        if (excess := len(self._data) - self._limit) > 0:
            del self._data[:excess]
            self.is_truncated = True

    def text(self) -> str:
        data = bytes(self._data)
        if self.is_truncated:
            while data and data[0] & 0xC0 == 0x80:  # the rest of a character that was cut
                data = data[1:]
        return data.decode(errors="replace")


class AcpTerminal(Closable):
    """One terminal, from `start` until `aclose`, which ends its command."""

    def __init__(self, request: TerminalRequest) -> None:
        self._request = request
        self._tail = OutputTail(request.output_bytes)
        self._status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """The exit code; negative: the number of a signal."""

    @abstractmethod
    async def start(self) -> None:
        """Start the command. Raises the reason if it cannot be started."""

    @abstractmethod
    async def kill(self) -> None:
        """End the command. Its output can still be read."""

    def output(self) -> Mapping[str, Any]:
        found = {"output": self._tail.text(), "truncated": self._tail.is_truncated}
        if self._status.done():
            found["exitStatus"] = _exit_status(self._status.result())
        return found

    async def wait(self) -> Mapping[str, Any]:
        return _exit_status(await asyncio.shield(self._status))

    def _ended(self, status: int) -> None:
        if not self._status.done():
            self._status.set_result(status)


class ProgramTerminal(AcpTerminal):
    """A terminal of a session: a program with pipes, whose output is exact."""

    def __init__(self, request: TerminalRequest, host: ProgramHost) -> None:
        super().__init__(request)
        self._host = host
        self._program: Program | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        request = self._request
        program = self._program = await self._host.start_program(
            request.argv,
            env=request.env,
            cwd=request.cwd,
            unread_limit=UNREAD_LIMIT,
            joins_stderr=True,
        )
        self._reading = asyncio.create_task(self._read(program))
        await program.close_stdin()

    async def kill(self) -> None:
        if self._program is not None and not self._status.done():
            await self._program.kill()

    async def aclose(self) -> None:
        with suppress(BasculeError):  # its sandbox may be gone, and the program with it
            await self.kill()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
        self._ended(-signal.SIGKILL)

    async def _read(self, program: Program) -> None:
        try:
            async for piece in program.output():
                self._tail.add(piece.data)
            self._ended(await program.wait())
        except BasculeError as error:
            self._tail.add(f"\n[bascule: {error.message}]\n".encode())
            self._ended(-signal.SIGKILL)


class ShellTerminal(AcpTerminal):
    """A terminal of a window: a command in a shell of its own, which the user sees."""

    def __init__(self, request: TerminalRequest, runtime: Runtime, shell: str) -> None:
        super().__init__(request)
        self._runtime = runtime
        self._shell = shell
        self._running: asyncio.Task[Observation] | None = None
        self._seen = 0

    async def start(self) -> None:
        request = self._request
        words = [f"{name}={shlex.quote(value)}" for name, value in request.env.items()]
        if len(request.argv) == 1 or request.arguments:
            words += map(shlex.quote, request.argv)
        else:
            words += (
                [request.command] if not words else ["bash", "-c", shlex.quote(request.command)]
            )
        action = CmdRun(" ".join(words), shell=self._shell, cwd=request.cwd, blocking=True)
        self._running = asyncio.create_task(
            self._runtime.act(action, on_progress=self._on_progress)
        )
        self._running.add_done_callback(self._on_done)

    async def kill(self) -> None:
        if not self._status.done():
            await self._runtime.act(Interrupt(shell=self._shell, kill=True))
            await self.wait()

    async def aclose(self) -> None:
        if self._running is not None and not self._running.done():
            self._running.cancel()  # interrupts the command
            await asyncio.wait({self._running})

    def _on_progress(self, progress: OutputProgress) -> None:
        self._seen += len(progress.data)
        self._tail.add(progress.data)

    def _on_done(self, task: asyncio.Task[Observation]) -> None:
        if task.cancelled():
            self._ended(-signal.SIGINT)
            return
        if (error := task.exception()) is not None:
            self._tail.add(f"\n[bascule: {error}]\n".encode())
            self._ended(-signal.SIGKILL)
            return
        observation = task.result()
        if not isinstance(observation, CmdOutput):
            self._tail.add(f"[bascule: {observation.content}]\n".encode())
            self._ended(126)  # the exit code of a command that may not be executed
            return
        if not self._seen:
            self._tail.add(observation.content.encode())
        code = observation.exit_code
        self._ended(code if code < 128 + 1 or code > 128 + 64 else 128 - code)


class AcpTerminals(Closable):
    """The terminals of one agent, by id. Closing ends all commands."""

    def __init__(self) -> None:
        self._terminals: dict[str, AcpTerminal] = {}
        self._number = 0

    def next_name(self) -> str:
        """The id of the next terminal."""
        self._number += 1
        return f"acp-{self._number}"

    async def open(self, name: str, terminal: AcpTerminal) -> None:
        if len(self._terminals) >= MAX_TERMINALS:
            raise QuotaExceeded(
                f"{MAX_TERMINALS} terminals are open, the maximum; release one first",
                limit=MAX_TERMINALS,
            )
        self._terminals[name] = terminal
        try:
            await terminal.start()
        except BaseException:
            del self._terminals[name]
            await terminal.aclose()
            raise

    def get(self, params: Mapping[str, Any]) -> AcpTerminal:
        name = params.get("terminalId")
        found = self._terminals.get(name) if isinstance(name, str) else None
        if found is None:
            raise InvalidRequest(f"There is no terminal {name!r:.200}, or it was released")
        return found

    async def release(self, params: Mapping[str, Any]) -> None:
        terminal = self.get(params)
        del self._terminals[params["terminalId"]]
        await terminal.aclose()

    async def aclose(self) -> None:
        terminals, self._terminals = list(self._terminals.values()), {}
        await asyncio.gather(*(each.aclose() for each in terminals))


def _variables(given: object) -> Mapping[str, str]:
    found = {}
    for each in given if isinstance(given, list) else [given]:
        if not isinstance(each, Mapping) or not isinstance(each.get("name"), str):
            raise InvalidRequest(f"`env` must be a list of `name` and `value`, not {each!r:.200}")
        found[each["name"]] = str(each.get("value", ""))
    return found


def _exit_status(status: int) -> Mapping[str, Any]:
    if status >= 0:
        return {"exitCode": status, "signal": None}
    try:
        return {"exitCode": None, "signal": signal.Signals(-status).name}
    except ValueError:
        return {"exitCode": None, "signal": str(-status)}
