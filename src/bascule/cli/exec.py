"""`bascule exec COMMAND…`: one command in a sandbox, with its output and status as one's own."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from bascule.core.actions import CmdRun, Interrupt
from bascule.core.contracts import OutputProgress, Runtime
from bascule.core.errors import BasculeError, ExecutionError, InvalidSetting, UsageError
from bascule.core.observations import CmdOutput, Observation

from .failure import report
from .sandbox_target import Key, SandboxTarget, Shell, Url, WorkingDir
from .unread_input import told_of_unread_input

TIMED_OUT = 124
FAILED = 125
_PATIENCE = 2
"""How many times an interrupt is passed on before it is meant by force."""


class HasRuntime(Protocol):
    """Provides the runtime for a command, which opens and closes it."""

    def runtime(self) -> Runtime: ...


def exec_(
    command: Annotated[
        list[str],
        typer.Argument(
            help="Command to run. A single argument is a line of bash; several arguments are "
            "passed as they are. Put -- before a command that starts with a dash."
        ),
    ],
    url: Url = None,
    key: Key = "",
    working_dir: WorkingDir = None,
    shell: Shell = "",
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0.001, help="Seconds after which to stop the command. [default: no limit]"
        ),
    ] = None,
) -> int:
    """Run one command, in a new sandbox or in the one at --url, and exit with its exit code.

    Output is written as it arrives. Ctrl-C interrupts the command. The command does not read this
    program's stdin. In a sandbox at --url the shell keeps running after the command, so `exit`
    closes that shell and prints `exit`, as in any interactive bash.

    Other exit codes: 124 if --timeout expired, 125 if the command could not be started (no sandbox
    at --url, wrong key), 2 for invalid arguments.
    """
    place = SandboxTarget(url=url, key=key, working_dir=working_dir or Path.cwd())
    text = command[0] if len(command) == 1 else shlex.join(command)
    if not text.strip():
        raise UsageError("the command is empty (try bascule exec 'echo hello')")
    if url is None:
        text = _apart(text)
    return run_command(place, CmdRun(text, blocking=True, shell=shell, timeout=timeout))


def run_command(place: HasRuntime, action: CmdRun) -> int:
    """Run it in a runtime of `place`; returns the status to exit with."""
    try:
        return asyncio.run(_run(place, action))
    except BrokenPipeError:
        # Python would complain once more while flushing stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        report(ExecutionError(f"cannot write the output: {error.strerror}"))
        return FAILED
    except BasculeError as error:
        report(error)
        return FAILED


def _apart(text: str) -> str:
    """`text` in a subshell of its own.

    Nobody uses the shell after it, so nothing is lost; and a subshell is not interactive, so that
    `exit` does not print its name and a job is not announced, as with `bash -c`.
    """
    return f"( \\builtin eval -- {shlex.quote(text)} )"


async def _run(place: HasRuntime, action: CmdRun) -> int:
    async with place.runtime() as runtime:
        output = _Output()
        with _Interrupts(runtime, action.shell), told_of_unread_input():
            observation = await output.follow(runtime.act(action, on_progress=output.write))
        return await _status(runtime, action, observation)


class _Output:
    """Our stdout. When it takes no more the command has no purpose either."""

    def __init__(self) -> None:
        if sys.stdout is None:
            raise InvalidSetting("stdout is closed; redirect it to /dev/null instead")
        self._broken: OSError | None = None
        self._task: asyncio.Task[Observation] | None = None

    async def follow(self, work: Coroutine[Any, Any, Observation]) -> Observation:
        self._task = asyncio.create_task(work)
        try:
            return await self._task
        except asyncio.CancelledError:
            if self._broken is not None:
                raise self._broken from None
            raise

    def write(self, progress: OutputProgress) -> None:
        """May wait for whoever reads: nothing else runs in this loop."""
        try:
            sys.stdout.buffer.write(progress.data)
            sys.stdout.buffer.flush()
        except OSError as error:
            self._broken = error
            assert self._task is not None
            self._task.cancel()


async def _status(runtime: Runtime, action: CmdRun, observation: Observation) -> int:
    if not isinstance(observation, CmdOutput):
        raise ExecutionError(observation.content)
    about = observation.metadata
    if about.state == "done":
        return about.exit_code & 255
    if about.timed_out == "hard":
        await runtime.act(Interrupt(shell=action.shell, kill=True))
        _say(f"the command ran longer than {action.timeout:g} seconds and was stopped (--timeout)")
        return TIMED_OUT
    raise ExecutionError((observation.content + about.suffix).strip())


class _Interrupts:
    """While open, Ctrl-C is for the command."""

    def __init__(self, runtime: Runtime, shell: str) -> None:
        self._runtime = runtime
        self._shell = shell
        self._presses = 0
        self._sent: set[asyncio.Task[Observation]] = set()

    def __enter__(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._press)

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)

    def _press(self) -> None:
        self._presses += 1
        action = Interrupt(shell=self._shell, kill=self._presses > _PATIENCE)
        sent = asyncio.ensure_future(self._runtime.act(action))
        self._sent.add(sent)
        sent.add_done_callback(self._sent.discard)


def _say(text: str) -> None:
    print(f"bascule: {text}", file=sys.stderr)  # noqa: T201
