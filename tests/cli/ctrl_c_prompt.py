"""A prompt that gets Ctrl-C at a moment that a person meets only rarely: `start` or `end`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from bascule.cli.loop import LoopThread
from bascule.cli.prompt import Prompt
from bascule.core.observations import Observation
from bascule.runtime import LocalRuntime

_T = TypeVar("_T")


class CtrlCAtStart(LoopThread):
    """Presses Ctrl-C when the first command has started."""

    is_at_prompt = False

    def start(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        future = super().start(work)
        if self.is_at_prompt:
            self.is_at_prompt = False
            os.kill(os.getpid(), signal.SIGINT)
        return future


class PromptWithCtrlCAtStart(Prompt):
    def _line(self, *, continued: bool) -> str | None:
        line = super()._line(continued=continued)
        assert isinstance(self._loop, CtrlCAtStart)
        self._loop.is_at_prompt = True
        return line


class PromptWithCtrlCAtEnd(Prompt):
    """Presses Ctrl-C when a command has ended and its result was shown."""

    def _show_result(self, observation: Observation) -> int:
        status = super()._show_result(observation)
        os.kill(os.getpid(), signal.SIGINT)
        return status


def main(moment: str) -> int:
    loop, prompt = (
        (CtrlCAtStart(), PromptWithCtrlCAtStart)
        if moment == "start"
        else (LoopThread(), PromptWithCtrlCAtEnd)
    )
    with loop, loop.hold(LocalRuntime()) as runtime:
        return prompt(runtime, loop).run_until_exit()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
