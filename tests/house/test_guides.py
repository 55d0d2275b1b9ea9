"""The programs in the guide for Python print what the comments beside them say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs/guides/python.md"
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_guide_has_programs() -> None:
    assert len(PROGRAMS) == 4


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_of_the_guide_does_what_it_says(program: str, tmp_path: Path) -> None:
    promised = re.findall(r"print\(.*\)  # (.*)$", program, re.MULTILINE)
    assert promised

    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program.replace("/tmp", str(tmp_path))],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == promised
