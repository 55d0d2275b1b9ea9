"""OpenHands V1, in the environment that scripts/openhands made for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from .environment import openhands_python, run_suite


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_suite_passes_with_openhands_v1(project: Path, tmp_path: Path) -> None:
    run_suite(openhands_python(project, "v1"), "openhands_v1", project, tmp_path)
