"""Replays a script in a runtime, in the recorded order and with the recorded overlaps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from bascule.core.actions import Action, CmdRun
from bascule.core.contracts import Runtime
from bascule.core.identity import new_id
from bascule.core.observations import CmdOutput
from bascule.wire import decode_action, encode_action, encode_observation

from .observation_diff import Difference, ObservationDiff
from .script import Script, Step

_MAX_WAIT: Final = 10.0
"""Maximum seconds to wait before a step that overlapped others in the recording, and at the end
for steps without a recorded answer."""


class Verdict(StrEnum):
    SAME = "same"
    DIFFERENT = "different"
    MASKED = "masked"
    """Not played, because a secret in the action is masked."""
    UNKNOWN = "unknown"
    """Played, but there is no recorded observation to compare with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """The result of a step."""

    step: Step
    verdict: Verdict
    differences: tuple[Difference, ...] = ()
    seen: Mapping[str, Any] | None = None
    """The observation, as an event."""
    seconds: float = 0.0


OnOutcome = Callable[[StepOutcome], None]


async def play(
    script: Script,
    runtime: Runtime,
    *,
    root: str = "",
    exact: bool = False,
    on_outcome: OnOutcome = lambda _: None,
) -> list[StepOutcome]:
    """Run every action of `script` in `runtime`, which must be open, and compare the observations.

    `root`: the working directory of the recording, by default the script's. Paths below `root` are
    changed to paths below the runtime's own directory. Raises the runtime's error if the connection
    to the runtime is lost.
    """
    was = root or script.working_dir
    now = await _working_dir(runtime) if was not in ("", "/") else ""
    diff = ObservationDiff(root_was=was if now else "", root_now=now, exact=exact)
    return await _Playback(runtime, diff, on_outcome).play(script)


class _Playback:
    def __init__(self, runtime: Runtime, diff: ObservationDiff, on_outcome: OnOutcome) -> None:
        self._runtime = runtime
        self._diff = diff
        self._on_outcome = on_outcome
        self._running: dict[int, tuple[Step, asyncio.Task[None]]] = {}
        self._outcomes: list[StepOutcome] = []

    async def play(self, script: Script) -> list[StepOutcome]:
        """Run all steps.

        A step waits for those steps that were answered before it began in the recording.
        """
        before: Step | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                for step in script.steps:
                    await self._wait_for(step.answered_before)
                    if before is not None:
                        await self._wait_as_recorded(before, step)
                    before = step
                    if step.is_masked:
                        self._report(StepOutcome(step=step, verdict=Verdict.MASKED))
                        continue
                    self._running[step.number] = step, tasks.create_task(self._do(step))
                await self._finish(script)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        return sorted(self._outcomes, key=lambda outcome: outcome.step.number)

    async def _wait_for(self, numbers: tuple[int, ...]) -> None:
        for number in numbers:
            if (running := self._running.pop(number, None)) is not None:
                _, task = running
                await asyncio.wait({task})

    async def _wait_as_recorded(self, before: Step, step: Step) -> None:
        """Give running steps the time that they had in the recording. Then end the step `before`,
        if it has no recorded answer."""
        if not self._running:
            return
        pause = 0.0 if before.seen is not None else _MAX_WAIT
        if before.began is not None and step.began is not None:
            pause = min(max(step.began - before.began, 0.0), _MAX_WAIT)
        await self._wait(pause)
        if before.seen is None and before.number in self._running:
            await self._end(before.number)

    async def _wait(self, timeout: float) -> None:
        """Wait until all running steps have ended, at most `timeout` seconds."""
        if self._running:
            await asyncio.wait([task for _, task in self._running.values()], timeout=timeout)

    async def _finish(self, script: Script) -> None:
        unanswered = {step.number for step in script.steps if step.seen is None}
        await self._wait_for(tuple(set(self._running) - unanswered))
        await self._wait(_MAX_WAIT)
        for number in tuple(self._running):
            await self._end(number)

    async def _end(self, number: int) -> None:
        """Interrupt a step whose end was not recorded."""
        step, task = self._running.pop(number)
        task.cancel()
        await asyncio.wait({task})
        if task.cancelled():
            self._report(StepOutcome(step=step, verdict=Verdict.UNKNOWN))

    async def _do(self, step: Step) -> None:
        started = time.monotonic()
        seen = encode_observation(await self._runtime.act(self._prepare_action(step.action)))
        seconds = time.monotonic() - started
        if step.seen is None:
            self._report(
                StepOutcome(step=step, verdict=Verdict.UNKNOWN, seen=seen, seconds=seconds)
            )
            return
        found = self._diff.differences(step.seen, seen, is_masked=step.is_seen_masked)
        verdict = Verdict.DIFFERENT if found else Verdict.SAME
        self._report(
            StepOutcome(
                step=step, verdict=verdict, differences=tuple(found), seen=seen, seconds=seconds
            )
        )

    def _report(self, outcome: StepOutcome) -> None:
        self._outcomes.append(outcome)
        self._on_outcome(outcome)

    def _prepare_action(self, action: Action) -> Action:
        """The action under a new id. For the recorded id, a runtime could return a stored
        observation."""
        event = encode_action(replace(action, id=new_id(), timestamp=None))
        return decode_action({**event, "args": self._diff.relocate(event["args"])})


async def _working_dir(runtime: Runtime) -> str:
    """The initial directory of the runtime's shells; empty if unknown."""
    seen = await runtime.act(CmdRun("pwd", is_static=True, hidden=True, timeout=30.0))
    is_known = isinstance(seen, CmdOutput) and seen.exit_code == 0
    return seen.content.strip() if is_known else ""
