"""Evaluation harnesses on a hub, in the environment that scripts/harnesses made for them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .environment import run_suite
from .session_hub import session_hub


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_suite_passes_with_evaluation_harnesses(project: Path, tmp_path: Path) -> None:
    python = harnesses_python(project)
    with session_hub() as hub:
        run_suite(
            *(python, "harnesses", project, tmp_path),
            BASCULE_HUB=hub.url,
            BASCULE_TOKEN=hub.token,
        )


def harnesses_python(project: Path) -> str:
    """The Python that has the harnesses. Skips the test if there is none."""
    where = subprocess.run(
        [project / "scripts" / "harnesses", "--where"], capture_output=True, text=True, check=False
    )
    if where.returncode == 3:
        pytest.skip("the harnesses are not installed; `scripts/harnesses` does that")
    assert where.returncode == 0, where.stderr
    return where.stdout.strip()
