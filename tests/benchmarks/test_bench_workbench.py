"""The case of sessions' VS Code: every figure of the report is measured, in a real browser."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from benchmarks import editor
from benchmarks.cases.case import Effort
from benchmarks.cases.workbench import WAYS, WEIGHTS, Workbench
from benchmarks.entrants import BASCULE_WORKBENCH
from benchmarks.results import Results
from benchmarks.workers import Worker


@pytest.mark.slow
@pytest.mark.editor
@pytest.mark.timeout(300)
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("bwrap") is None, reason="needs root, bwrap")
def test_the_vscode_of_a_session_gives_every_figure_the_report_needs(project: Path) -> None:
    parts = editor.prepare(project, install=True)
    worker = Worker(BASCULE_WORKBENCH, Path(sys.executable), project, parts.arguments)
    results = Results()
    try:
        worker.greet()
        found = Workbench().measure(worker, 0, Effort(is_quick=True))
    finally:
        worker.stop()
    results.add(Workbench.name, BASCULE_WORKBENCH, found)

    assert all(found[name] > 0 for name in (*WAYS, *WEIGHTS))
    assert found["idle_bytes"] < found["vscode_bytes"] < found["client_bytes"]
    assert "–" not in Workbench().report(results).replace(" – ", "")
