"""The case of command rules: both engines answer it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from benchmarks.cases.case import Effort
from benchmarks.cases.command_rules import CommandRulesCase
from benchmarks.entrants import BASCULE_RULES, BASCULE_RULES_WINDOW, Entrant
from benchmarks.results import Results
from benchmarks.workers import Worker


@pytest.mark.slow
@pytest.mark.parametrize("entrant", [BASCULE_RULES, BASCULE_RULES_WINDOW])
def test_every_figure_the_report_needs_is_given(project: Path, entrant: Entrant) -> None:
    built = project / "extension/dist/rules-batch.js"
    if entrant is BASCULE_RULES_WINDOW and (shutil.which("node") is None or not built.is_file()):
        pytest.skip("needs Node and a built extension")
    worker = Worker(entrant, Path(sys.executable), project)
    try:
        worker.greet()
        found = CommandRulesCase().measure(worker, 0, Effort(is_quick=True))
    finally:
        worker.stop()
    results = Results()
    results.add(CommandRulesCase.name, entrant, found)

    assert set(found) == {"median", "95 %"}
    assert f"| {entrant.title} | " in CommandRulesCase().report(results)
