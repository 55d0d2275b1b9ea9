"""Have in a clone what a wheel brings along, and what `bascule up` shows: the hub's page, our
extension, VS Code for the browser, a Chromium for agents.

All of it at once, since most of the time is spent waiting for packages. A person sees how far each
is; a log has a line for what began and what it took. What is there already takes no time and is not
mentioned. What cannot be had is told with the reason, and everything else goes on without it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

PROJECT: Final = Path(__file__).parent.parent
_MENTIONED: Final = 0.5
"""Seconds of work about which nothing is said: then it was there."""
_LAST_WORDS: Final = 15


class Tell(Protocol):
    """How work says how far it is: what passes, and perhaps how much of how much is done."""

    def __call__(self, words: str = "", *, done: int = 0, of: int = 0) -> None: ...


@dataclass(frozen=True, slots=True)
class Part:
    """Something to have."""

    name: str
    without: str
    """What cannot be done if it is not to be had."""
    make: Callable[[Tell], None]
    """Quick when it is there. Raises `Exception` with the reason as its text."""


class ScriptFailed(Exception):
    """Its last words."""


def parts() -> Sequence[Part]:
    return (
        Part("hub page", "the hub's web page", script("scripts/web")),
        Part("VS Code extension", "agents in VS Code", script("scripts/vsix")),
        Part("VS Code for the browser", "VS Code", _vscode),
        Part("Chromium for agents", "browser actions", script("scripts/browser")),
    )


def script(*command: str) -> Callable[[Tell], None]:
    """Work that is done by a program; its lines pass."""

    def make(tell: Tell) -> None:
        last_words: deque[str] = deque(maxlen=_LAST_WORDS)
        with subprocess.Popen(
            command,
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            assert process.stdout is not None
            for line in map(str.strip, process.stdout):
                last_words.append(line)
                tell(line)
        if process.returncode != 0:
            raise ScriptFailed("\n".join(last_words))

    return make


def _vscode(tell: Tell) -> None:
    from bascule.cli.editor import find

    find().install(lambda done, of: tell("packages", done=done, of=of))


def prepare(wanted: Sequence[Part], console: Console) -> list[Part]:
    """Those that are not to be had, each told with its reason."""
    began = time.monotonic()
    board = _Board(console)
    pool = ThreadPoolExecutor(len(wanted))
    try:
        works = {pool.submit(part.make, board.teller(part)): part for part in wanted}
        wait(works, timeout=_MENTIONED)
        slow = [part for work, part in works.items() if not work.done()]
        with board.shown(slow):
            for work in as_completed(works):
                part = works[work]
                if work.exception() is not None:
                    board.give_up(part)
                elif part in slow:
                    board.finish(part, time.monotonic() - began)
    finally:
        pool.shutdown(wait=False)
    return [part for work, part in works.items() if _has_failed(part, work, console)]


def _has_failed(part: Part, work: Future[None], console: Console) -> bool:
    error = work.exception()
    if error is None:
        return False
    console.print(f"[yellow]![/] {escape(part.name)} could not be installed: {escape(str(error))}")
    console.print(f"  Continuing without {escape(part.without)}.")
    return True


class _Board:
    """What a person sees of work that goes on, or what a log has of it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._tasks: dict[Part, TaskID] = {}
        self._bars = Progress(
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description:<24}"),
            TimeElapsedColumn(),
            BarColumn(16),
            TextColumn("[dim]{task.fields[words]}", markup=True),
            console=console,
            disable=not console.is_terminal,
        )

    def teller(self, part: Part) -> Tell:
        bar = self._bars.add_task(part.name, total=None, visible=False, words="")
        self._tasks[part] = bar

        def tell(words: str = "", *, done: int = 0, of: int = 0) -> None:
            shown = f"{words} {done}/{of}" if of else words
            self._bars.update(bar, completed=done, total=of or None, words=escape(shown[:40]))

        return tell

    @contextmanager
    def shown(self, slow: Sequence[Part]) -> Iterator[None]:
        """Only if there is anything to wait for."""
        if not slow:
            yield
            return
        if not self._console.is_terminal:
            names = ", ".join(part.name for part in slow)
            self._console.print(
                f"run: preparing {names}; the first time this takes a minute or two"
            )
        for part in slow:
            self._bars.update(self._tasks[part], visible=True)
        with self._bars:
            yield

    def finish(self, part: Part, seconds: float) -> None:
        """A person goes on seeing what it took."""
        self._bars.update(self._tasks[part], total=1, completed=1, words="")
        if not self._console.is_terminal:
            self._console.print(f"run: {part.name}: {seconds:.0f} s")

    def give_up(self, part: Part) -> None:
        self._bars.update(self._tasks[part], visible=False)


def main() -> None:
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        prepare(parts(), console)
    except KeyboardInterrupt:
        # Not by the console: one that was interrupted while it printed prints that line again.
        print("run: interrupted; run `make run` again to continue", file=sys.stderr, flush=True)
        # Programs were interrupted as we were; a thread that installs cannot be, and leaving it
        # half done does no harm: an installation is taken into use when it is whole.
        os._exit(130)


if __name__ == "__main__":
    main()
