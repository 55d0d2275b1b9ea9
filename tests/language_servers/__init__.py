"""Language servers that tests start in sandboxes."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

import pytest

_SCRIPT = Path(__file__).parents[2] / "scripts" / "language-servers"


@functools.cache
def servers_directory() -> Path | None:
    """The directory with the programs; None if they are not installed."""
    found = subprocess.run([_SCRIPT, "--where"], capture_output=True, text=True)
    return Path(found.stdout.strip()) if found.returncode == 0 else None


def path_with_servers() -> str:
    """A PATH with the language servers. Skips the test if they are not installed."""
    directory = servers_directory()
    if directory is None:
        pytest.skip("no language servers are installed; scripts/language-servers installs them")
    return f"{directory}:{os.environ['PATH']}"
