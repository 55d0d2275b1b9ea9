"""The environments that scripts/openhands made, and how a suite is run in one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest


def openhands_python(project: Path, version: str) -> str:
    """The Python that has that OpenHands; where there is none, skips and says what to do."""
    where = subprocess.run(
        [project / "scripts" / "openhands", version, "--where"],
        capture_output=True,
        text=True,
        check=False,
    )
    if where.returncode == 3:
        pytest.skip(f"OpenHands is not installed; `scripts/openhands {version}` does that")
    assert where.returncode == 0, where.stderr
    return where.stdout.strip()


def run_suite(
    python: str, suite: str, project: Path, directory: Path, *, only: str = "", **env: str
) -> None:
    """Run the tests below `suite`, or those with `only` in their names. There must be one."""
    options = ["-q", "-W", "ignore", "-p", "no:cacheprovider", f"--basetemp={directory}/pytest"]
    ran = subprocess.run(
        [python, "-m", "pytest", *options, "-k", only, project / "tests" / "adapters" / suite],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project / "src"), **env},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-2_000:]
