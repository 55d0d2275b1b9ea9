"""The case of forks is answered with every figure that the report needs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.cases.case import Effort
from benchmarks.cases.forks import ForkStart
from benchmarks.entrants import BASCULE_FORKS
from benchmarks.results import Results
from benchmarks.workers import Worker


@pytest.mark.slow
def test_every_figure_the_report_needs_is_given(project: Path) -> None:
    worker = Worker(BASCULE_FORKS, Path(sys.executable), project)
    try:
        worker.greet()
        found = ForkStart().measure(worker, 0, Effort(is_quick=True))
    finally:
        worker.stop()
    results = Results()
    results.add(ForkStart.name, BASCULE_FORKS, found)

    assert set(found) == {"snapshot 100", "first 100", "all 100", "compared 100"}
    assert "| 100 | " in ForkStart().report(results)
