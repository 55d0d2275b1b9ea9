"""Files and variables that make a sandbox look like OpenHands' image to programs that expect it.

OpenHands' agents and tests use the path of the Python in its images. They read the URL of the file
viewer from a file in /tmp, and expect the browser's downloads in the working directory.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bascule.core.sessions import FileLayout
from bascule.sandbox.browser.settings import DOWNLOADS

from .agent_skills import PRELUDE

_ENVIRONMENT: Final = "/openhands/poetry/openhands-ai-5O4_aCHf-py3.12"
_PYTHON: Final = f"{_ENVIRONMENT}/bin/python"
_VIEW_URL_FILE: Final = "/tmp/oh-server-url"  # noqa: S108  # the sandbox's own
_SOFT_TIMEOUT_VARIABLE: Final = "NO_CHANGE_TIMEOUT_SECONDS"


def links_for(layout: FileLayout, environment: str = sys.prefix) -> Mapping[str, str]:
    """Return the symbolic links that a spawner creates, as path to target.

    One link replaces OpenHands' whole Python environment by ours. A Python started through a link
    to the interpreter alone would not find its packages. `environment`: path of our environment
    inside the sandbox.
    """
    return {_ENVIRONMENT: environment} if layout == "openhands" else {}


def python_of(layout: FileLayout) -> str:
    """Return the interpreter for IPython cells; empty: our own."""
    return _PYTHON if layout == "openhands" and Path(_PYTHON).exists() else ""


def prelude_of(layout: FileLayout) -> str:
    """Return the code that defines the agent skills for cells."""
    return PRELUDE if python_of(layout) else ""


def variables_of(layout: FileLayout, variables: Mapping[str, str]) -> Mapping[str, str]:
    """Append OpenHands' Python to the PATH, for systems without a `python`."""
    if not python_of(layout):
        return variables
    return {**variables, "PATH": f"{variables.get('PATH', '')}:{_ENVIRONMENT}/bin"}


def soft_timeout(variables: Mapping[str, str], default: float) -> float:
    """Return the soft timeout of commands from the variable that OpenHands' server reads; `default`
    if the variable is missing or invalid."""
    try:
        seconds = float(variables.get(_SOFT_TIMEOUT_VARIABLE, default))
    except ValueError:
        return default
    return seconds if 0 < seconds < float("inf") else default


def write_expected_files(
    layout: FileLayout, working_dir: Path, *, view_url: str, has_browser: bool
) -> None:
    """Write files that OpenHands' agents expect. Only for a sandbox with its own /tmp.

    Blocks the calling thread.
    """
    if layout != "openhands":
        return
    if view_url:
        Path(_VIEW_URL_FILE).write_text(view_url.removesuffix("/view"))
    if has_browser:
        (working_dir / DOWNLOADS).mkdir(exist_ok=True)
