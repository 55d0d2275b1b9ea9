"""The case of the hub's page: every figure of the report is measured, in a real browser."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from bascule.hub.web.page import is_built
from benchmarks.cases.case import Effort
from benchmarks.cases.dashboard import ACTIONS, FIGURES, Dashboard
from benchmarks.entrants import BASCULE_PAGE
from benchmarks.results import Results
from benchmarks.workers import Worker


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.timeout(300)
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")
@pytest.mark.skipif(not is_built(), reason="the page is not built; scripts/web builds it")
def test_the_page_gives_every_figure_the_report_needs(project: Path) -> None:
    worker = Worker(BASCULE_PAGE, Path(sys.executable), project)
    results = Results()
    try:
        worker.greet()
        found = Dashboard().measure(worker, 0, Effort(is_quick=True))
    finally:
        worker.stop()
    results.add(Dashboard.name, BASCULE_PAGE, found)

    assert set(FIGURES) <= set(found)
    assert 0 < found["rows"] < ACTIONS / 40
    assert "–" not in Dashboard().report(results).replace(" – ", "")
