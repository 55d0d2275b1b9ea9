"""The agents and clients of ACP that tests run, unmodified, with a model that follows a script."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest

_SCRIPT = Path(__file__).parents[2] / "scripts" / "acp-agents"


@cache
def _home() -> Path | None:
    where = subprocess.run([_SCRIPT, "--where"], capture_output=True, text=True, check=False)
    assert where.returncode in (0, 3), where.stderr
    return Path(where.stdout.strip()) if where.returncode == 0 else None


def agents_home() -> Path:
    """The directory of the agents; where there is none, skips and says what to do."""
    home = _home()
    if home is None:
        pytest.skip("no ACP agents are installed; scripts/acp-agents installs them")
    return home


def node_program(path: str) -> list[str]:
    """The command line of a program below `node_modules`."""
    home = agents_home()
    return [str(home / "bin" / "node"), str(home / "node_modules" / path)]
