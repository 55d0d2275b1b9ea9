"""The case of sessions: every figure of the report is measured."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from benchmarks.cases.case import Effort
from benchmarks.cases.sessions import WAYS, Sessions
from benchmarks.entrants import BASCULE_SESSIONS
from benchmarks.results import Results
from benchmarks.workers import Worker


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("bwrap") is None, reason="needs root, bwrap")
def test_sessions_give_every_figure_the_report_needs(project: Path) -> None:
    worker = Worker(BASCULE_SESSIONS, Path(sys.executable), project)
    results = Results()
    try:
        worker.greet()
        found = Sessions().measure(worker, 0, Effort(is_quick=True))
    finally:
        worker.stop()
    results.add(Sessions.name, BASCULE_SESSIONS, found)

    assert all(found[name] > 0 for name in WAYS)
    assert found["held"] == 5
    assert found["own_bytes"] > 1 << 20
    assert "–" not in Sessions().report(results).replace(" – ", "")
