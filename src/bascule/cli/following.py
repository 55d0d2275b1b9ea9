"""Run a command to its very end and show all it prints, as it comes and without a gap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bascule.core.actions import CmdRun
from bascule.core.contracts import Progress, Runtime
from bascule.core.errors import LogRangeGone
from bascule.core.observations import CmdOutput, Observation

_CHUNK = 1 << 20


async def run_to_end(
    runtime: Runtime, command: CmdRun, write: Callable[[bytes], object]
) -> Observation:
    """Run `command`, `write` its output, and return the observation that tells its end.

    A runtime that answers early, because of a time-out of its own, is asked to read on. Only
    when `command` has a `timeout` is that answer returned, with the program still running.
    """
    output = _Output(runtime, command.shell, write)
    observation = await runtime.act(command, on_progress=output.show)
    await output.complete(observation)
    while _goes_on(observation) and command.timeout is None:
        read_on = CmdRun("", blocking=True, shell=command.shell)
        later = await runtime.act(read_on, on_progress=output.show)
        await output.complete(later)
        if isinstance(later, CmdOutput) and later.metadata.state == "idle":
            return replace(later, command=command.command)
        observation = later
    return observation


class _Output:
    """What a shell printed, written once and in order.

    Pieces come live. Where one is missing (a slow reader is left behind) the rest is taken from
    the shell's log once the command has answered.
    """

    def __init__(self, runtime: Runtime, shell: str, write: Callable[[bytes], object]) -> None:
        self._runtime = runtime
        self._shell = shell
        self._write = write
        self._position: int | None = None

    def show(self, progress: Progress) -> None:
        if self._position is None:
            self._position = progress.offset
        if progress.offset == self._position:
            self._write(progress.data)
            self._position += len(progress.data)

    async def complete(self, observation: Observation) -> None:
        if not isinstance(observation, CmdOutput):
            return
        position, end = self._position, observation.metadata.log_end
        if position is None:
            position = observation.metadata.log_start
        while position < end:
            try:
                data = await self._runtime.read_log(
                    self._shell, start=position, end=min(end, position + _CHUNK)
                )
            except LogRangeGone as gone:
                oldest = int(gone.detail.get("start", end))
                self._write(f"\n[{oldest - position:,} bytes are gone from the log]\n".encode())
                position = oldest
                continue
            if not data:
                break
            self._write(data)
            position += len(data)
        self._position = position


def _goes_on(observation: Observation) -> bool:
    return isinstance(observation, CmdOutput) and observation.metadata.state == "running"
