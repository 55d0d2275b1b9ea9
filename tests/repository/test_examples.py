"""Every example runs and prints what it promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent.parent / "examples").glob("*.py"))
HERE = [example for example in EXAMPLES if not example.stem.startswith("openhands_")]
"""Those that run with no more than bascule; tests/adapters runs the others."""


def test_there_are_examples() -> None:
    assert EXAMPLES


@pytest.mark.slow
@pytest.mark.parametrize("example", HERE, ids=lambda path: path.stem)
def test_an_example_runs_and_says_what_its_last_lines_promise(
    example: Path, tmp_path: Path
) -> None:
    """The comment that ends an example is what it prints."""
    lines = example.read_text().splitlines()
    promised = [line.removeprefix("# > ") for line in lines if line.startswith("# > ")]

    ran = subprocess.run(
        [sys.executable, "-W", "error", example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert promised
    assert ran.stdout.splitlines() == promised
