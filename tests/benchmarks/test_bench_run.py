"""A run takes everyone in turn and goes on when one of them fails."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import RAW, Entrant
from benchmarks.results import Figures, Results
from benchmarks.run import Run
from benchmarks.workers import Declined, Worker, WorkerError

pytestmark = pytest.mark.slow


class Moody(Case):
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


def test_a_failure_costs_one_round_and_a_new_worker(root: Path) -> None:
    case = Moody()
    with Run(root, Effort(rounds=4), Console(file=io.StringIO())) as run:
        run.bring_up([RAW])
        run.all([case])

    assert len(run.results.of("moody", RAW)) == 2
    assert run.results.problems["moody"][RAW.name] == "in no mood to finish"
    before, failed, after, last = case.pids
    assert before == failed != after == last


def test_one_that_cannot_be_loaded_is_skipped_and_named(root: Path) -> None:
    broken = Entrant("broken", "no such thing", "no_such_module")
    shown = io.StringIO()
    with Run(root, Effort(rounds=1), Console(file=shown, width=200)) as run:
        run.bring_up([broken, RAW])

    assert "no_such_module" in run.results.skipped["broken"]
    assert "SKIPPED broken" in shown.getvalue()
    assert RAW.name not in run.results.skipped


def test_the_first_turn_moves_on_from_round_to_round(root: Path) -> None:
    other = Entrant("raw-again", "the same", "raw_pty")
    asked: list[str] = []

    class Noting(Moody):
        def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:
            asked.append(worker.entrant.name)
            return {}

        def finish(self, worker: Worker) -> None:
            return

    with Run(root, Effort(rounds=2), Console(file=io.StringIO())) as run:
        run.bring_up([RAW, other])
        run.all([Noting()])

    assert asked == ["raw-pty", "raw-again", "raw-again", "raw-pty"]
