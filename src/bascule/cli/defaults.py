"""Default address of a hub; separate from its settings, which are slow to import."""

from __future__ import annotations

from pathlib import Path
from typing import Final

DEFAULT_FILE: Final = Path("bascule.toml")
"""The settings file, in the current directory."""
DEFAULT_PORT: Final = 8300
