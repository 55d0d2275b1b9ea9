"""The example of an agent does what its last line promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples" / "openhands_v1.py"


def test_the_example_fixes_a_program_in_a_sandbox(tmp_path: Path) -> None:
    promised = EXAMPLE.read_text().splitlines()[-1].removeprefix("# > ")

    ran = subprocess.run(
        [sys.executable, EXAMPLE],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == promised
