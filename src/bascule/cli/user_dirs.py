"""Directories of the user's own, by the XDG rules."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """What can be fetched again."""
    return _below("XDG_CACHE_HOME", "~/.cache")


def state_dir() -> Path:
    """What has to outlive a program."""
    return _below("XDG_STATE_HOME", "~/.local/state")


def _below(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable) or default).expanduser().absolute() / "bascule"
