"""The run itself: workers up, then every case in interleaved rounds, with a bar and a forecast.

Within a round each entrant has its turn once, and the first turn moves on from round to round.
"""

from __future__ import annotations

import compileall
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from benchmarks import editor, packages, venvs
from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import Entrant
from benchmarks.results import Results
from benchmarks.workers import Declined, Worker, WorkerError, WorkerLost

REASON_LENGTH = 200
FIRST_GUESS = {"fast": 1.0, "medium": 4.0, "slow": 8.0}
"""Seconds a step is thought to take before the same step has been seen once."""


@dataclass(frozen=True, slots=True)
class Step:
    case: Case
    entrant: Entrant
    round: int


@dataclass(slots=True)
class Forecast:
    """How long the steps ahead will take, going by the steps behind."""

    seen: dict[tuple[str, str], float] = field(default_factory=dict)

    def note(self, step: Step, seconds: float) -> None:
        self.seen[step.case.name, step.entrant.name] = seconds

    def remaining(self, steps: Sequence[Step]) -> float:
        return sum(self._guess(step) for step in steps)

    def _guess(self, step: Step) -> float:
        return self.seen.get((step.case.name, step.entrant.name), FIRST_GUESS[step.entrant.pace])


class Run:
    """Owns the workers. Use as `with Run(...) as run: run.all(cases)`."""

    def __init__(self, root: Path, effort: Effort, console: Console) -> None:
        self.results = Results()
        self._root = root
        self._effort = effort
        self._console = console
        self._workers: dict[str, Worker] = {}
        self._pythons: dict[str, Path] = {}
        self._handed: dict[str, tuple[str, ...]] = {}

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers.values():
            worker.stop()

    def bring_up(self, entrants: Sequence[Entrant]) -> None:
        """Make what environments are missing, start all workers, and wait for each to be ready."""
        for package in ("benchmarks", "src"):
            compileall.compile_dir(self._root / package, quiet=2)
        for entrant in entrants:
            try:
                self._pythons[entrant.name] = self._python(entrant)
                self._handed[entrant.name] = self._parts(entrant)
                self._workers[entrant.name] = self._start(entrant)
            except (venvs.VenvFailed, editor.EditorMissing, packages.PackageMissing) as failed:
                self._skip(entrant, str(failed))
        for entrant in entrants:
            self._greet(entrant)

    def all(self, cases: Sequence[Case]) -> None:
        """Measure `cases`, one after the other."""
        steps = [step for case in cases for step in self._steps(case)]
        forecast = Forecast()
        done = 0
        with _bar(self._console) as show:
            for case in cases:
                with case.surroundings():
                    for step in (step for step in steps if step.case is case):
                        show(step, forecast.remaining(steps[done:]), done=done, of=len(steps))
                        began = perf_counter()
                        self._take(step)
                        forecast.note(step, perf_counter() - began)
                        done += 1
                    self._finish(case)
                self.results.save(self._root / ".bench" / "unfinished.json")

    def _steps(self, case: Case) -> Iterator[Step]:
        rounds = {name: self._rounds(case, w.entrant) for name, w in self._workers.items()}
        for number in range(max(rounds.values(), default=0)):
            turn = [w.entrant for name, w in self._workers.items() if number < rounds[name]]
            shift = number % len(turn)
            for entrant in turn[shift:] + turn[:shift]:
                yield Step(case, entrant, number)

    def _rounds(self, case: Case, entrant: Entrant) -> int:
        if case.is_in_editor is not entrant.needs_editor or entrant.only not in ("", case.name):
            return 0
        return case.rounds(entrant, self._effort)

    def _take(self, step: Step) -> None:
        worker = self._workers.get(step.entrant.name)
        if worker is None:
            return
        try:
            figures = step.case.measure(worker, step.round, self._effort)
        except WorkerError as error:
            self._complain(step.case, step.entrant, error)
        else:
            self.results.add(step.case.name, step.entrant, {"round": step.round, **figures})

    def _complain(self, case: Case, entrant: Entrant, error: WorkerError) -> None:
        """Say so, here and in the report. A worker that failed may be in any state: start anew."""
        reason = str(error)[:REASON_LENGTH]
        self.results.add_problem(case.name, entrant, reason)
        if isinstance(error, Declined):
            return
        self._console.print(
            f"[yellow]{entrant.name}[/] gave no figure for {case.name}: {reason}", highlight=False
        )
        self._workers[entrant.name].stop(patience=0 if isinstance(error, WorkerLost) else 5)
        self._workers[entrant.name] = self._start(entrant)
        self._greet(entrant)

    def _finish(self, case: Case) -> None:
        for worker in list(self._workers.values()):
            try:
                if self._rounds(case, worker.entrant):
                    case.finish(worker)
            except WorkerError as error:
                self._complain(case, worker.entrant, error)

    def _python(self, entrant: Entrant) -> Path:
        if entrant.venv is None:
            return Path(sys.executable)
        with self._console.status(f"environment of {entrant.venv}"):
            return venvs.python_of(entrant.venv, self._root, make=not self._effort.is_quick)

    def _parts(self, entrant: Entrant) -> tuple[str, ...]:
        if entrant.package is not None:
            with self._console.status(entrant.package):
                install = not self._effort.is_quick
                return packages.command_of(entrant.package, self._root, install=install)
        if not entrant.needs_editor:
            return ()
        with self._console.status("VS Code, a browser and the extension"):
            return editor.prepare(self._root, install=not self._effort.is_quick).arguments

    def _start(self, entrant: Entrant) -> Worker:
        name = entrant.name
        return Worker(entrant, self._pythons[name], self._root, self._handed[name])

    def _greet(self, entrant: Entrant) -> None:
        if entrant.name not in self._workers:
            return
        try:
            with self._console.status(f"loading {entrant.name}"):
                self._workers[entrant.name].greet()
        except WorkerError as error:
            self._workers.pop(entrant.name).stop()
            self._skip(entrant, str(error))
        else:
            versions = self._workers[entrant.name].hello["versions"]
            self.results.about.setdefault("versions", {}).update(versions)

    def _skip(self, entrant: Entrant, reason: str) -> None:
        self.results.skipped[entrant.name] = reason
        self._console.print(f"[bold red]SKIPPED {entrant.name}[/]: {reason}", highlight=False)


@contextmanager
def _bar(console: Console) -> Iterator[_Show]:
    """Drawn between steps only: a bar that redraws itself would be measured with the rest."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TextColumn("{task.fields[left]} left"),
    )
    with Progress(*columns, console=console, auto_refresh=False) as progress:
        yield _Show(progress)
        progress.refresh()


class _Show:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=1, left="?")

    def __call__(self, step: Step, seconds: float, *, done: int, of: int) -> None:
        left = f"{int(seconds) // 60}:{int(seconds) % 60:02}"
        text = f"{step.case.name} · round {step.round + 1} · {step.entrant.name}"
        self._progress.update(
            self._task, description=f"{text:45}", completed=done, total=of, left=left
        )
        self._progress.refresh()
