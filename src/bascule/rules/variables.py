"""Variables that a command may set without approval. No I/O."""

from __future__ import annotations

import re

_HARMLESS = frozenset(
    {
        "LANG",
        "TZ",
        "TERM",
        "COLUMNS",
        "LINES",
        "NO_COLOR",
        "FORCE_COLOR",
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "CI",
        "DEBUG",
        "VERBOSE",
        "NODE_ENV",
        "RUST_BACKTRACE",
        "RUST_LOG",
        "PYTHONUNBUFFERED",
    }
)
_LOCALE = re.compile(r"LC_\w*", re.ASCII)
_LOWER_CASE = re.compile(r"[a-z_][a-z0-9_]*", re.ASCII)
_READ_BY_PROGRAMS = re.compile(r"(?:https?|ftp|all|no)_proxy|npm_config_.*", re.ASCII)


def is_harmless_variable(name: str) -> bool:
    """Whether a variable may be set for one command."""
    return name in _HARMLESS or _LOCALE.fullmatch(name) is not None


def may_be_assigned(name: str) -> bool:
    """Whether an assignment without a command may set a variable of the shell."""
    if is_harmless_variable(name):
        return True
    return bool(_LOWER_CASE.fullmatch(name)) and not _READ_BY_PROGRAMS.fullmatch(name)
