"""The user's state, cache and runtime directories, by the XDG rules."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from tempfile import gettempdir

from bascule.core.errors import InvalidSetting


def cache_dir() -> Path:
    """What can be fetched again."""
    return _below("XDG_CACHE_HOME", "~/.cache")


def state_dir() -> Path:
    """What has to outlive a program."""
    return _below("XDG_STATE_HOME", "~/.local/state")


def runtime_dir() -> Path:
    """Sockets of what runs now."""
    given = os.environ.get("XDG_RUNTIME_DIR")
    return Path(given, "bascule") if given else Path(gettempdir(), f"bascule-{os.getuid()}")


def make_runtime_dir() -> None:
    """For this user alone. Raises `InvalidSetting` if others could act in it."""
    path = runtime_dir()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise InvalidSetting(
            f"cannot create the directory for sockets {path}: {error.strerror}"
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise InvalidSetting(
            f"{path} must be a directory that belongs to you and that other users cannot "
            "enter (mode 700)"
        )


def sandbox_dir(working_dir: Path) -> Path:
    """Where the tmux shells of a sandbox that works there are found again."""
    digest = hashlib.sha256(os.fsencode(working_dir)).hexdigest()
    return runtime_dir() / f"sandbox-{digest[:16]}"


def _below(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable) or default).expanduser().absolute() / "bascule"
