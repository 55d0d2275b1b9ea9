"""A run takes everyone in turn and goes on when one of them fails."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import editor
from benchmarks.cases.case import Case, Effort
from benchmarks.cases.window import Window
from benchmarks.entrants import BASCULE_WINDOW, RAW, Entrant
from benchmarks.results import Figures, Results
from benchmarks.run import Run
from benchmarks.workers import Declined, Worker, WorkerError

pytestmark = pytest.mark.slow


class FlakyCase(Case):
    """Fails in its second round and when it is told to finish; declines in its third."""

    name = "moody"
    title = "Moody"

    def __init__(self) -> None:
        self.pids: list[int] = []

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        return effort.rounds

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:
        self.pids.append(worker.pid)
        if round == 1:
            raise WorkerError("in no mood")
        if round == 2:
            raise Declined("never does this")
        return {"seconds": worker.ask("startup", count=1)["first_command"]}

    def finish(self, worker: Worker) -> None:
        raise WorkerError("in no mood to finish")

    def report(self, results: Results) -> str:
        return ""


@pytest.fixture
def root(project: Path, tmp_path: Path) -> Path:
    (tmp_path / "benchmarks").symlink_to(project / "benchmarks")
    (tmp_path / "src").symlink_to(project / "src")
    return tmp_path


def test_a_failure_loses_one_round_and_starts_a_new_worker(root: Path) -> None:
    case = FlakyCase()
    with Run(root, Effort(rounds=4), Console(file=io.StringIO())) as run:
        run.bring_up([RAW])
        run.all([case])

    assert len(run.results.of("moody", RAW)) == 2
    assert run.results.problems["moody"][RAW.name] == "in no mood to finish"
    before, failed, after, last = case.pids
    assert before == failed != after == last


def test_an_entrant_that_cannot_be_loaded_is_skipped_and_named(root: Path) -> None:
    broken = Entrant("broken", "no such thing", "no_such_module")
    shown = io.StringIO()
    with Run(root, Effort(rounds=1), Console(file=shown, width=200)) as run:
        run.bring_up([broken, RAW])

    assert "no_such_module" in run.results.skipped["broken"]
    assert "SKIPPED broken" in shown.getvalue()
    assert RAW.name not in run.results.skipped


def test_a_window_without_an_editor_is_skipped_and_named(root: Path) -> None:
    shown = io.StringIO()
    with Run(root, Effort(rounds=1), Console(file=shown, width=200)) as run:
        run.bring_up([BASCULE_WINDOW])
        run.all([Window()])

    assert "scripts/editor cannot be run" in run.results.skipped[BASCULE_WINDOW.name]
    assert f"SKIPPED {BASCULE_WINDOW.name}" in shown.getvalue()
    assert not run.results.rounds


def test_editor_entrants_run_only_editor_cases_and_others_run_none_of_them(
    root: Path,
) -> None:
    inside = Entrant("inside", "the same", "raw_pty", needs_editor=True)
    asked: list[tuple[str, str]] = []

    class Outside(FlakyCase):
        def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:
            asked.append((self.name, worker.entrant.name))
            return {}

        def finish(self, worker: Worker) -> None:
            asked.append((self.name, worker.entrant.name))

    class Inside(Outside):
        name = "inside"
        is_in_editor = True

    with Run(root, Effort(rounds=1), Console(file=io.StringIO())) as run:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(editor, "prepare", lambda *_, **__: editor.Editor(*[root] * 4))
            run.bring_up([RAW, inside])
        run.all([Outside(), Inside()])

    assert asked == [("moody", "raw-pty")] * 2 + [("inside", "inside")] * 2


def test_the_entrant_that_runs_first_rotates_each_round(root: Path) -> None:
    other = Entrant("raw-again", "the same", "raw_pty")
    asked: list[str] = []

    class Noting(FlakyCase):
        def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:
            asked.append(worker.entrant.name)
            return {}

        def finish(self, worker: Worker) -> None:
            return

    with Run(root, Effort(rounds=2), Console(file=io.StringIO())) as run:
        run.bring_up([RAW, other])
        run.all([Noting()])

    assert asked == ["raw-pty", "raw-again", "raw-again", "raw-pty"]
