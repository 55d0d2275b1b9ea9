"""The user's configuration, state, cache and runtime directories, by the XDG rules."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from tempfile import gettempdir

from bascule.core.errors import InvalidSetting


def config_dir() -> Path:
    """The directory for files that the user writes."""
    return _below("XDG_CONFIG_HOME", "~/.config")


def cache_dir() -> Path:
    """The directory for files that can be downloaded again."""
    return _below("XDG_CACHE_HOME", "~/.cache")


def state_dir() -> Path:
    """The directory for persistent state."""
    return _below("XDG_STATE_HOME", "~/.local/state")


def runtime_dir() -> Path:
    """The directory for the sockets of running programs."""
    given = os.environ.get("XDG_RUNTIME_DIR")
    return Path(given, "bascule") if given else Path(gettempdir(), f"bascule-{os.getuid()}")


def make_runtime_dir() -> None:
    """Create `runtime_dir` with access for this user only. Raises `InvalidSetting` if other users
    have access."""
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
    """The state directory of the tmux shells of a sandbox with this working directory."""
    digest = hashlib.sha256(os.fsencode(working_dir)).hexdigest()
    return runtime_dir() / f"sandbox-{digest[:16]}"


def _below(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable) or default).expanduser().absolute() / "bascule"
