"""Sorts terminal output: output of the running command, output of background jobs, and noise."""

from __future__ import annotations

import logging
from collections.abc import Callable

from bascule.core.contracts import OnProgress, OutputProgress

from .execution import Execution
from .log import DiskLog
from .marks import (
    PROMPT,
    find_mark,
    held_back,
    unfinished_mark,
    without_marks,
    without_prompt,
)
from .stages import OUTPUT_COMPLETE, OUTPUT_STARTED, BashState, CommandStage, OutputStage

logger = logging.getLogger(__name__)

_MAX_BACKGROUND = 64 << 10
"""Maximum bytes kept of the output of background jobs; the oldest are dropped."""
_PROMPT_DELAY = 0.005
"""Seconds for which a prompt must be the last output before it counts as a prompt."""


class TerminalReader:
    """Reads one shell's terminal: logs output, passes it to listeners, finds the end of a command.

    Calls `on_complete` when it has read a command's end mark, before it handles the data after the
    mark. Calls `on_prompt` when a command's output seems to end in a prompt.
    """

    def __init__(
        self,
        name: str,
        *,
        log: DiskLog,
        state: BashState,
        on_complete: Callable[[Execution], None],
        on_prompt: Callable[[Execution], None],
    ) -> None:
        self._name = name
        self._log = log
        self._state = state
        self._on_complete = on_complete
        self._on_prompt = on_prompt
        self._listeners: list[OnProgress] = []
        self._background = bytearray()
        self.rest = b""
        """The last bytes read, held back because they may begin a mark or be a prompt."""

    def subscribe(self, listener: OnProgress) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def reset(self) -> None:
        """Forget the output of the previous bash."""
        self.rest = b""
        self._background.clear()

    def forget_background(self) -> None:
        self._background.clear()

    def start(self, execution: Execution) -> None:
        """Treat output from here on as the command's."""
        execution.enter_output(OUTPUT_STARTED)
        execution.log_start = self._log.end
        if self._background:
            # Leave out the first prompt, and our own lines that bash echoes under `set -v` or `-x`.
            if self._state.is_settled and not {"v", "x"}.intersection(self._state.options):
                execution.background = self._background.decode("utf-8", "replace")
            self._background.clear()

    def take(self, data: bytes, execution: Execution | None) -> None:
        """Handle output `data`, printed while `execution` was the shell's command."""
        if self.rest:
            data, self.rest = self.rest + data, b""
        if (
            execution is None
            or execution.stage is CommandStage.WAITING
            or execution.output_stage is OUTPUT_COMPLETE
        ):
            self._idle_output(data)
            return
        nonce = execution.nonce
        mark = find_mark(data, nonce)
        if execution.output_stage is OutputStage.EXPECTED:
            if mark is None:
                self._idle_output(self._keep_back(data, held_back(data, nonce)))
                return
            self._idle_output(data[: mark.before])
            self.start(execution)
            if mark.is_start:
                data = data[mark.after :]
                mark = find_mark(data, nonce)
        if mark is None:
            self._emit(execution, self._keep_back(data, held_back(data, nonce)))
            if self.rest.endswith(PROMPT):
                execution.later(_PROMPT_DELAY, lambda: self._look_for_prompt(execution))
            return
        end = execution.end_report
        if mark.was_asked and end is None:
            # Bash sends its report before it prints this mark, so the report arrives soon. If the
            # report is from the command's own line, bash printed no prompt, and text that looks
            # like a prompt is the command's output.
            self.rest = data
            return
        output = data[: mark.before]
        self._emit(execution, without_prompt(output) if end and end.was_asked else output)
        execution.enter_output(OUTPUT_COMPLETE)
        self._on_complete(execution)
        self._idle_output(data[mark.after :])

    def flush(self, execution: Execution | None) -> None:
        """Treat held-back bytes as output, because no data follows that could complete a mark."""
        rest, self.rest = self.rest, b""
        if rest and execution is not None:
            self._emit(execution, rest)

    def _look_for_prompt(self, execution: Execution) -> None:
        if self.rest.endswith(PROMPT):
            self._on_prompt(execution)

    def _keep_back(self, data: bytes, size: int) -> bytes:
        """Hold back the last `size` bytes until more data arrives; return the others."""
        if not size:
            return data
        self.rest = data[-size:] + self.rest
        return data[:-size]

    def _emit(self, execution: Execution, data: bytes) -> None:
        if execution.was_signalled:
            data = data.replace(PROMPT, b"")  # bash prints one for each signal at its prompt
        if not data:
            return
        execution.add(data)
        self._record(data)

    def _record(self, data: bytes) -> None:
        offset = self._log.end
        self._log.append(data)
        if self._listeners:
            progress = OutputProgress(self._name, offset, data)
            for listener in tuple(self._listeners):
                try:
                    listener(progress)
                except Exception as error:  # noqa: BLE001 - a listener must not break the shell
                    logger.warning("a listener to the shell %s failed: %r", self._name, error)

    def _idle_output(self, data: bytes) -> None:
        """Handle output without a running command: drop prompts, keep output of background jobs."""
        if not data:
            return
        data = self._keep_back(data, unfinished_mark(data))
        data = without_marks(data)
        if data and self._state.is_settled:
            self._background += data
            if len(self._background) > _MAX_BACKGROUND:
                del self._background[: len(self._background) - _MAX_BACKGROUND]
            self._record(data)
