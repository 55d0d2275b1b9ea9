"""The environments that scripts/openhands made, and how a suite is run in one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

_STACKS_AFTER = 180
_SUITE_TIMEOUT = 840
"""Seconds, less than the time limit of the tests that call `run_suite`."""


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
    """Run the tests below `suite`, or those with `only` in their names. There must be one.

    A test that has not ended after `_STACKS_AFTER` seconds gets a report of where it waits.
    """
    options = ["-v", "-W", "ignore", "-p", "no:cacheprovider", f"--basetemp={directory}/pytest"]
    options += ["-o", f"faulthandler_timeout={_STACKS_AFTER}"]
    with (directory / "output").open("w+", errors="replace") as output:
        try:
            status = subprocess.run(
                [python, "-m", "pytest", *options, "-k", only, project / "tests/adapters" / suite],
                cwd=project,
                env={**os.environ, "PYTHONPATH": str(project / "src"), **env},
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=_SUITE_TIMEOUT,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            status = -1
        output.seek(0)
        text = output.read()

    assert status == 0, text[-20_000:]
