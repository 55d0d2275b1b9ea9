"""`bascule exec COMMAND…`: run one command in a sandbox, with its output and exit code."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, Protocol

from bascule.core.actions import CmdRun, Interrupt
from bascule.core.contracts import OutputProgress, Runtime
from bascule.core.errors import BasculeError, ExecutionError, InvalidSetting, UsageError
from bascule.core.observations import CmdOutput, Observation

from .command_timeout import CommandTimeout
from .failure import report
from .sandbox_target import Key, SandboxTarget, Shell, Url, WorkingDir
from .signatures import CommandArgument
from .unread_input import hint_about_unread_input

TIMED_OUT = 124
FAILED = 125
_INTERRUPTS_BEFORE_KILL = 2
"""Number of Ctrl-C presses that interrupt the command. The next press kills it."""


class HasRuntime(Protocol):
    """Provides the runtime for a command. The command opens and closes the runtime."""

    def runtime(self) -> Runtime: ...


def exec_(
    command: Annotated[
        list[str],
        CommandArgument(
            help="Command to run. A single argument is a line of bash. Several arguments are a "
            "program and its arguments, passed unchanged. Put -- before a command that starts "
            "with a dash."
        ),
    ],
    url: Url = None,
    key: Key = "",
    working_dir: WorkingDir = None,
    shell: Shell = "",
    timeout: CommandTimeout = None,
) -> int:
    """Run one command in a new or running sandbox, and exit with the command's exit code.

    Output is written as it arrives. Ctrl-C interrupts the command. The command cannot read stdin of
    `bascule exec`. At --url the command runs in a shell that stays open for later commands. If the
    command calls `exit`, that shell ends and adds the word `exit` to the output.

    Exits with 124 if --timeout expired, 125 if the command could not be run (no sandbox at --url,
    wrong key), 2 for invalid arguments.
    """
    target = SandboxTarget(url=url, key=key, working_dir=working_dir or Path.cwd())
    text = command[0] if len(command) == 1 else shlex.join(command)
    if not text.strip():
        raise UsageError("the command is empty (try bascule exec 'echo hello')")
    if url is None:
        text = _in_subshell(text)
    return run_command(target, CmdRun(text, blocking=True, shell=shell, timeout=timeout))


def run_command(target: HasRuntime, action: CmdRun) -> int:
    """Run `action` in the runtime of `target`. Returns the exit code for this program."""
    try:
        return asyncio.run(_run(target, action))
    except BrokenPipeError:
        # Otherwise Python would report the same error again when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        report(ExecutionError(f"cannot write the output: {error.strerror}"))
        return FAILED
    except BasculeError as error:
        report(error)
        return FAILED


def _in_subshell(text: str) -> str:
    """`text` as a command that runs in a subshell.

    The shell is not used afterwards, so its state is not needed. A subshell is not interactive, so
    `exit` prints nothing and jobs are not announced, as with `bash -c`.
    """
    return f"( \\builtin eval -- {shlex.quote(text)} )"


async def _run(target: HasRuntime, action: CmdRun) -> int:
    async with target.runtime() as runtime:
        output = _Output()
        with _Interrupts(runtime, action.shell), hint_about_unread_input():
            observation = await output.follow(runtime.act(action, on_progress=output.write))
        return await _status(runtime, action, observation)


class _Output:
    """Writes the command's output to stdout. If stdout fails, the command is cancelled."""

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
        """Write a chunk of output. It may block on a slow reader: this loop runs nothing else."""
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
        _print_note(
            f"the command ran longer than {action.timeout:g} seconds and was stopped (--timeout)"
        )
        return TIMED_OUT
    raise ExecutionError((observation.content + about.suffix).strip())


class _Interrupts:
    """Passes Ctrl-C on to the command while open."""

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
        action = Interrupt(shell=self._shell, kill=self._presses > _INTERRUPTS_BEFORE_KILL)
        sent = asyncio.ensure_future(self._runtime.act(action))
        self._sent.add(sent)
        sent.add_done_callback(self._sent.discard)


def _print_note(text: str) -> None:
    print(f"bascule: {text}", file=sys.stderr)  # noqa: T201
