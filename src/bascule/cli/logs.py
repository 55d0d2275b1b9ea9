"""Configures logging for all commands."""

from __future__ import annotations

import logging
import os

from bascule.core.errors import InvalidSetting
from bascule.core.printable import OneLineFormatter

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_LEVELS = ("debug", "info", "warning", "error")


def configure_logging(default: str) -> None:
    """Log to stderr, from the level in BASCULE_LOG, or else `default`."""
    level = os.environ.get("BASCULE_LOG", default).lower()
    if level not in _LEVELS:
        raise InvalidSetting(f"BASCULE_LOG is {level!r}; it must be one of: {', '.join(_LEVELS)}")
    logging.basicConfig(level=level.upper(), format=_FORMAT)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(OneLineFormatter(_FORMAT))
