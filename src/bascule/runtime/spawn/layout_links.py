"""Symbolic links by which a sandbox imitates the file layout of another product."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

from bascule.core.sessions import FileLayout
from bascule.sandbox.session import openhands_image

from .session_paths import WORKSPACE

E2B_HOME: Final = "/home/user"


def links_for(layout: FileLayout, environment: str = sys.prefix) -> Mapping[str, str]:
    """The links as path to target. `environment`: our Python environment inside the sandbox."""
    if layout == "e2b":
        return {E2B_HOME: WORKSPACE}
    return openhands_image.links_for(layout, environment)
