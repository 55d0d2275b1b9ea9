"""Shows on stderr the stages of a session that is starting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from bascule.core.printable import one_line

from .terminal import LiveLines, elapsed, spinner, stderr


@dataclass(slots=True)
class _Stage:
    name: str
    began: float
    ended: float | None = None

    def line(self) -> str:
        mark = spinner() if self.ended is None else "✓"
        return f"{mark} {self.name} {elapsed(self.began, self.ended)}"


class ShownStages:
    """Call it with the name of each new stage. To print anything else, use `with hidden()`."""

    def __init__(
        self, begin: Callable[[str], None], hidden: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._begin = begin
        self.hidden = hidden

    def __call__(self, stage: str) -> None:
        self._begin(one_line(stage))


@contextmanager
def show_stages(*, only_last: bool = False) -> Iterator[ShownStages]:
    """Show the stages on stderr while open. At a terminal the lines are updated with the elapsed
    time, and removed at the end. Otherwise each stage is one line, or none with `only_last`."""
    terminal = stderr()
    if not terminal.is_interactive:
        yield ShownStages((lambda _: None) if only_last else terminal.print, nullcontext)
        return
    stages: list[_Stage] = []

    def begin(name: str) -> None:
        now = time.monotonic()
        if stages and only_last:
            stages.clear()
        elif stages:
            stages[-1].ended = now
        stages.append(_Stage(name, now))

    def lines() -> Sequence[str]:
        return [each.line() for each in tuple(stages)]

    with LiveLines(lines) as live:
        yield ShownStages(begin, live.hidden)
