"""The case of programs with pipes: asyncio and both of ours answer it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.cases.case import Effort
from benchmarks.cases.programs import Programs
from benchmarks.entrants import BASCULE_PROGRAMS, BASCULE_PROGRAMS_HTTP, PLAIN_PROGRAMS, Entrant
from benchmarks.results import Results
from benchmarks.workers import Worker


@pytest.mark.slow
@pytest.mark.parametrize("entrant", [PLAIN_PROGRAMS, BASCULE_PROGRAMS, BASCULE_PROGRAMS_HTTP])
def test_every_figure_the_report_needs_is_given(project: Path, entrant: Entrant) -> None:
    worker = Worker(entrant, Path(sys.executable), project)
    try:
        worker.greet()
        found = Programs().measure(worker, 0, Effort(is_quick=True))
    finally:
        worker.stop()
    results = Results()
    results.add(Programs.name, entrant, found)

    assert set(found) == {"start", "copy", "growth"}
    assert f"| {entrant.title} | " in Programs().report(results)
