"""Build and install what `bascule up` needs in a clone: the hub's page, the VS Code extension, VS
Code for the browser, and Chromium for agents.

All components are prepared in parallel, because most of the time goes into downloads. A terminal
shows a progress bar for each; a log gets one line at the start and one at the end of each.
Components that are up to date are not mentioned. If a component fails, its error is printed and
`make run` continues without it.
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
_QUIET: Final = 0.5
"""Seconds. A component that is ready by then was up to date, and is not shown."""
_OUTPUT_TAIL: Final = 15
"""Lines of a failed script's output in its error."""


class ReportProgress(Protocol):
    """Shows what a component is doing, and optionally how many of how many steps are done."""

    def __call__(self, text: str = "", *, done: int = 0, of: int = 0) -> None: ...


@dataclass(frozen=True, slots=True)
class Component:
    """Something to build or install."""

    name: str
    needed_for: str
    """What does not work without it."""
    make: Callable[[ReportProgress], None]
    """Quick if up to date. Raises an exception with the reason as its text."""


class ScriptFailed(Exception):
    """A script exited with an error. The text is the end of its output."""


def components() -> Sequence[Component]:
    return (
        Component("hub page", "the hub's web page", script("scripts/web")),
        Component("VS Code extension", "agents in VS Code", script("scripts/vsix")),
        Component("VS Code for the browser", "VS Code", _vscode),
        Component("Chromium for agents", "browser actions", script("scripts/browser")),
    )


def script(*command: str) -> Callable[[ReportProgress], None]:
    """Runs a program and shows its current line of output."""

    def make(report: ReportProgress) -> None:
        tail: deque[str] = deque(maxlen=_OUTPUT_TAIL)
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
                tail.append(line)
                report(line)
        if process.returncode != 0:
            raise ScriptFailed("\n".join(tail))

    return make


def _vscode(report: ReportProgress) -> None:
    from bascule.cli.editor import find

    find().install(lambda done, of: report("packages", done=done, of=of))


def prepare(wanted: Sequence[Component], console: Console) -> list[Component]:
    """Prepare all components. Prints the errors of those that failed, and returns those."""
    started = time.monotonic()
    display = _Display(console)
    pool = ThreadPoolExecutor(len(wanted))
    try:
        works = {pool.submit(each.make, display.reporter(each)): each for each in wanted}
        wait(works, timeout=_QUIET)
        slow = [component for work, component in works.items() if not work.done()]
        with display.shown(slow):
            for work in as_completed(works):
                component = works[work]
                if work.exception() is not None:
                    display.hide(component)
                elif component in slow:
                    display.finish(component, time.monotonic() - started)
    finally:
        pool.shutdown(wait=False)
    return [each for work, each in works.items() if _has_failed(each, work, console)]


def _has_failed(component: Component, work: Future[None], console: Console) -> bool:
    error = work.exception()
    if error is None:
        return False
    name, needed_for = escape(component.name), escape(component.needed_for)
    console.print(f"[yellow]![/] {name} could not be installed: {escape(str(error))}")
    console.print(f"  Continuing without {needed_for}.")
    return True


class _Display:
    """Progress bars on a terminal, lines in a log."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._tasks: dict[Component, TaskID] = {}
        self._bars = Progress(
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description:<24}"),
            TimeElapsedColumn(),
            BarColumn(16),
            TextColumn("[dim]{task.fields[text]}", markup=True),
            console=console,
            disable=not console.is_terminal,
        )

    def reporter(self, component: Component) -> ReportProgress:
        bar = self._bars.add_task(component.name, total=None, visible=False, text="")
        self._tasks[component] = bar

        def report(text: str = "", *, done: int = 0, of: int = 0) -> None:
            shown = f"{text} {done}/{of}" if of else text
            self._bars.update(bar, completed=done, total=of or None, text=escape(shown[:40]))

        return report

    @contextmanager
    def shown(self, slow: Sequence[Component]) -> Iterator[None]:
        """Show these components, if any, while the block runs."""
        if not slow:
            yield
            return
        if not self._console.is_terminal:
            names = ", ".join(component.name for component in slow)
            self._console.print(
                f"run: preparing {names}; the first time this takes a minute or two"
            )
        for component in slow:
            self._bars.update(self._tasks[component], visible=True)
        with self._bars:
            yield

    def finish(self, component: Component, seconds: float) -> None:
        """Mark a component as ready. On a terminal its bar stays, with the time it took."""
        self._bars.update(self._tasks[component], total=1, completed=1, text="")
        if not self._console.is_terminal:
            self._console.print(f"run: {component.name}: {seconds:.0f} s")

    def hide(self, component: Component) -> None:
        self._bars.update(self._tasks[component], visible=False)


def main() -> None:
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        prepare(components(), console)
    except KeyboardInterrupt:
        # Not with the console: if it was interrupted while printing, it would repeat that line.
        print("run: interrupted; run `make run` again to continue", file=sys.stderr, flush=True)
        # Ctrl-C has also reached the child programs. The thread that installs VS Code cannot be
        # interrupted, so exit without waiting for it: only a complete installation is used.
        os._exit(130)


if __name__ == "__main__":
    main()
