"""Workers answer questions in a process of their own and leave nothing behind."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import processes
from benchmarks.entrants import BASCULE, BASCULE_HTTP, OURS, RAW, Entrant
from benchmarks.workers import Declined, Worker, WorkerError, WorkerLost

pytestmark = pytest.mark.slow


@pytest.fixture
def root(project: Path, tmp_path: Path) -> Path:
    """A place for logs, with the benchmarks importable from it."""
    (tmp_path / "benchmarks").symlink_to(project / "benchmarks")
    return tmp_path


@pytest.fixture
def worker(root: Path) -> Iterator[Worker]:
    worker = Worker(RAW, Path(sys.executable), root)
    worker.greet()
    yield worker
    worker.stop()


def test_a_worker_measures_latency_in_its_own_process(worker: Worker) -> None:
    seen = worker.ask("latency", count=20, warmup=2)

    assert 0 < seen["median"] <= seen["p95"]
    assert seen["wrong"] == 0


def test_the_shell_processes_of_a_worker_are_counted_from_outside(worker: Worker) -> None:
    alone = worker.family()
    worker.ask("fleet_open", count=3)

    everyone = worker.family()

    assert len(everyone) == len(alone) + 3
    assert processes.memory(everyone).pss > processes.memory(alone).pss


def test_the_cpu_time_of_a_command_is_measured_from_outside(worker: Worker) -> None:
    worker.ask("fleet_open", count=2)
    before = processes.cpu_seconds(worker.family())
    worker.ask("fleet_run", each=200)

    assert processes.cpu_seconds(worker.family()) > before


def test_a_missing_capability_is_reported_differently_from_a_failure(worker: Worker) -> None:
    with pytest.raises(Declined, match="has no server"):
        worker.ask("server_start")
    with pytest.raises(WorkerError, match="TypeError"):
        worker.ask("latency", nonsense=1)


def test_a_worker_that_ends_is_noticed(worker: Worker) -> None:
    os.kill(worker.pid, 9)

    with pytest.raises(WorkerLost):
        worker.ask("hello")


def test_a_worker_that_does_not_answer_in_time_is_noticed(worker: Worker) -> None:
    with pytest.raises(WorkerLost, match="no answer"):
        worker.ask("output", command="sleep 5", piece="x", repeat=1, limit=9, timeout=0.05)
    worker.stop(patience=0)


def test_an_import_error_of_a_subject_is_reported_with_its_reason(root: Path) -> None:
    missing = dataclasses.replace(RAW, module="no_such_peer")
    worker = Worker(missing, Path(sys.executable), root)
    try:
        with pytest.raises(WorkerLost, match="no_such_peer"):
            worker.greet()
    finally:
        worker.stop()


def test_stopping_a_worker_ends_every_process_including_orphans(root: Path) -> None:
    worker = Worker(RAW, Path(sys.executable), root)
    worker.greet()
    environment = {**os.environ, processes.MARK: worker.mark}
    stray = subprocess.Popen(["sleep", "60"], env=environment, start_new_session=True)
    worker.ask("fleet_open", count=2)
    others = worker.family() - {worker.pid, stray.pid}

    worker.stop()

    assert stray.wait(5) == -9
    assert not _alive(others)


@pytest.mark.parametrize("entrant", OURS, ids=lambda entrant: entrant.name)
def test_bascule_entrants_complete_every_case_with_a_goal(root: Path, entrant: Entrant) -> None:
    worker = Worker(entrant, Path(sys.executable), root)
    try:
        worker.greet()
        assert worker.ask("startup", count=2)["first_command"] > 0
        assert worker.ask("endure", count=100, seed=4)["wrong"] == 0
        worker.ask("endure_end")
        worker.ask("fleet_open", count=3)
        assert worker.ask("fleet_run", each=5)["wrong"] == 0
        worker.ask("fleet_close")
        seen = worker.ask("output", command="seq 1 5000", piece="", repeat=5000, limit=30)
        assert seen["exact"]
    finally:
        worker.stop()


def test_the_bascule_server_is_started_measured_and_stopped(root: Path) -> None:
    worker = Worker(BASCULE_HTTP, Path(sys.executable), root)
    try:
        worker.greet()
        started = worker.ask("server_start")
        assert started["seconds"] > 0
        assert processes.memory([started["pid"]]).rss > 0

        worker.ask("server_stop")

        assert started["pid"] not in worker.family()
    finally:
        worker.stop()


@pytest.mark.parametrize("entrant", [BASCULE, BASCULE_HTTP], ids=lambda entrant: entrant.name)
def test_the_bascule_file_actions_are_measured(root: Path, entrant: Entrant) -> None:
    worker = Worker(entrant, Path(sys.executable), root)
    try:
        worker.greet()
        seen = worker.ask("files", size=3000, repeats=2)
        assert all(isinstance(seconds, float) for seconds in seen.values()), seen
    finally:
        worker.stop()


def _alive(pids: frozenset[int]) -> list[int]:
    """Those still running a moment later; a killed process needs one to disappear."""
    deadline = time.monotonic() + 5
    left = list(pids)
    while left and time.monotonic() < deadline:
        left = [pid for pid in left if Path(f"/proc/{pid}/cmdline").exists() and _runs(pid)]
    return left


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
