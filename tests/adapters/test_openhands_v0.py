"""OpenHands V0, in the environment that scripts/openhands made for it.

Its pins are older than what our hub needs, so hubs and window run here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .environment import openhands_python, run_suite
from .session_hub import session_hub
from .window_hub import open_hub_with_window


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_suite_passes_with_openhands_v0(project: Path, tmp_path: Path) -> None:
    python = openhands_python(project, "v0")
    folder, home = tmp_path / "window", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    with open_hub_with_window(folder) as place, session_hub() as hub:
        env = {
            "BASCULE_HUB": place.url,
            "BASCULE_TOKEN": place.token,
            "BASCULE_WINDOW": str(folder),
            "SESSIONS_HUB": hub.url,
            "SESSIONS_TOKEN": hub.token,
            "HOME": str(home),
        }
        run_suite(python, "openhands_v0", project, tmp_path, **env)

        assert hub.run("session", "list", "--json").strip() == "[]"
