"""The net case: ours answers it, and what peers are given is the same net."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bascule.net import explore
from bascule.testing.nets import build
from bascule.testing.nets import philosophers as ours
from benchmarks.cases.case import Effort
from benchmarks.cases.nets import Nets
from benchmarks.entrants import BASCULE_NETS
from benchmarks.peers.net_shapes import philosophers
from benchmarks.results import Results
from benchmarks.workers import Worker


def test_the_net_given_to_other_tools_has_the_same_states() -> None:
    assert explore(build("given", *philosophers(4))).states == explore(ours(4)).states == 81


@pytest.mark.slow
def test_the_bascule_net_benchmark_gives_every_figure_the_report_needs(project: Path) -> None:

    worker = Worker(BASCULE_NETS, Path(sys.executable), project)
    results = Results()
    try:
        worker.greet()
        found = Nets().measure(worker, 0, Effort(is_quick=True))
    finally:
        worker.stop()
    results.add(Nets.name, BASCULE_NETS, found)

    assert (found["states"], found["edges"]) == (729, 3402)
    assert found["firings_per_second"] > found["run_per_second"] > 0
    assert "| bascule-nets | 729 | 3,402 |" in Nets().report(results)
