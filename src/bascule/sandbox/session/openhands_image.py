"""Files and variables that make a sandbox look like OpenHands' image to programs that expect it.

OpenHands' agents and tests name the Python of its images, read at which address files are shown
from a file in /tmp, and expect the browser's downloads beside their work.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bascule.core.sessions import Likeness
from bascule.sandbox.browser.settings import DOWNLOADS

from .agent_skills import PRELUDE

_ENVIRONMENT: Final = "/openhands/poetry/openhands-ai-5O4_aCHf-py3.12"
_PYTHON: Final = f"{_ENVIRONMENT}/bin/python"
_VIEW_ADDRESS: Final = "/tmp/oh-server-url"  # noqa: S108  # the sandbox's own
_SOFT_TIMEOUT: Final = "NO_CHANGE_TIMEOUT_SECONDS"


def links_for(likeness: Likeness, environment: str = sys.prefix) -> Mapping[str, str]:
    """Links for a spawner to make: the whole environment of our Python under the other's name, so
    that a Python started by that name finds its packages. `environment`: where that is inside."""
    return {_ENVIRONMENT: environment} if likeness == "openhands" else {}


def python_of(likeness: Likeness) -> str:
    """The interpreter of cells; empty: our own."""
    return _PYTHON if likeness == "openhands" and Path(_PYTHON).exists() else ""


def prelude_of(likeness: Likeness) -> str:
    """What cells find defined."""
    return PRELUDE if python_of(likeness) else ""


def environment_of(likeness: Likeness, environment: Mapping[str, str]) -> Mapping[str, str]:
    """`environment` with a `python` to be found, where a system has none of that name."""
    if not python_of(likeness):
        return environment
    return {**environment, "PATH": f"{environment.get('PATH', '')}:{_ENVIRONMENT}/bin"}


def soft_timeout(environment: Mapping[str, str], usual: float) -> float:
    """Seconds without output after which a command is answered, from the variable that OpenHands'
    server reads; `usual` where it is not set or says nothing useful."""
    try:
        seconds = float(environment.get(_SOFT_TIMEOUT, usual))
    except ValueError:
        return usual
    return seconds if 0 < seconds < float("inf") else usual


def write_expected_files(
    likeness: Likeness, working_dir: Path, *, view_url: str, browses: bool
) -> None:
    """Blocks. Only for a sandbox that has a /tmp of its own."""
    if likeness != "openhands":
        return
    if view_url:
        Path(_VIEW_ADDRESS).write_text(view_url.removesuffix("/view"))
    if browses:
        (working_dir / DOWNLOADS).mkdir(exist_ok=True)
