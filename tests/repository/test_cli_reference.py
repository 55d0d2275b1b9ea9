"""docs/cli.md has every command as it is."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from bascule.cli.app import COMMANDS


def test_the_cli_reference_is_what_its_script_generates(project: Path) -> None:
    script = runpy.run_path(str(project / "scripts/cli_reference.py"), run_name="reference")
    written = (project / "docs/cli.md").read_text()

    assert written == script["page"](), "run make fix"


def test_every_command_is_in_the_cli_reference(project: Path) -> None:
    headings = re.findall(r"^### bascule (\S+)", (project / "docs/cli.md").read_text(), re.M)

    assert set(COMMANDS) | {"debug-adapter"} == set(headings)
