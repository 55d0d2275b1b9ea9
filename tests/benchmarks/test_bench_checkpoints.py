"""The case of checkpoints: ours and the shadow repository answer it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.cases.case import Effort
from benchmarks.cases.checkpoints import Checkpoints
from benchmarks.entrants import BASCULE_CHECKPOINTS, SHADOW_GIT, Entrant
from benchmarks.results import Results
from benchmarks.workers import Worker


@pytest.mark.slow
@pytest.mark.parametrize("entrant", [BASCULE_CHECKPOINTS, SHADOW_GIT])
def test_every_figure_the_report_needs_is_given(project: Path, entrant: Entrant) -> None:
    worker = Worker(entrant, Path(sys.executable), project)
    try:
        worker.greet()
        found = Checkpoints().measure(worker, 0, Effort(is_quick=True))
    finally:
        worker.stop()
    results = Results()
    results.add(Checkpoints.name, entrant, found)

    assert set(found) == {"first 500", "nothing 500", "changed 500"}
    assert f"| {entrant.title} | 500 | " in Checkpoints().report(results)
