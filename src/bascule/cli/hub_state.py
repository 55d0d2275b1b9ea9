"""The state directories of the hubs on this machine, and which hubs are running.

`bascule serve` keeps its state in the directory of the settings, each `bascule up` in a directory
`up-…` below it. A running hub holds a lock on `hub.lock` in its directory. The kernel releases the
lock when the hub is killed, so a killed hub never counts as running.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bascule.core.errors import InvalidSetting

UP_DIRECTORIES: Final = "up-*"
_ADDRESS: Final = "hub-address"
_FOLDER: Final = "folder"
_LOCK: Final = "hub.lock"
_TRIES: Final = 5
_PAUSE: Final = 0.05


@dataclass(frozen=True, slots=True)
class RunningHub:
    """A running hub of this user."""

    url: str
    state: Path
    folder: str = ""
    """The folder of `bascule up`; empty for `bascule serve`."""

    def __str__(self) -> str:
        return f"{self.url} ({command_of(self.folder)})"


class HubAlreadyRunning(InvalidSetting):
    """Another hub uses this state directory. Two hubs would end each other's sessions."""

    def __init__(self, state: Path, url: str) -> None:
        where = f" and runs at {url}" if url else ""
        super().__init__(
            f"another hub already uses the state directory {state}{where}; set "
            "`state_dir` to another directory for this hub"
        )
        self.url = url


def running_hubs(state: Path) -> Sequence[RunningHub]:
    """The running hubs with their state in or below `state`, the last started first."""
    found = []
    for directory in (state, *state.glob(UP_DIRECTORIES)):
        url = text_of(directory / _ADDRESS)
        if url and _is_locked(directory):
            started = (directory / _ADDRESS).stat().st_mtime_ns
            found.append((started, RunningHub(url, directory, folder_of(directory))))
    return [hub for _, hub in sorted(found, key=lambda each: each[0], reverse=True)]


def folder_of(state: Path) -> str:
    """The folder of the `bascule up` whose hub uses this state; empty for `bascule serve`."""
    return text_of(state / _FOLDER)


def command_of(folder: str) -> str:
    """The command that starts the hub of a folder."""
    return f"bascule up --working-dir {folder}" if folder else "bascule serve"


@contextmanager
def lock_state(state: Path, *, folder: Path | None = None) -> Iterator[None]:
    """Lock the state directory for one hub, and record the hub's folder.

    Raises `HubAlreadyRunning`.
    """
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (state / _LOCK).open("w") as file:
        _lock(file.fileno(), state)
        if folder is not None:
            (state / _FOLDER).write_text(f"{folder}\n")
        yield


@contextmanager
def published_address(state: Path, url: str) -> Iterator[None]:
    """Publish the hub's address in its state directory, where commands of this user find it."""
    file = state / _ADDRESS
    file.write_text(url + "\n")
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def text_of(file: Path) -> str:
    """The stripped text of a file; empty if the file cannot be read."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _lock(descriptor: int, state: Path) -> None:
    """Take the lock, with several tries: a command that checks for a hub holds it for a moment."""
    for left in reversed(range(_TRIES)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not left:
                raise HubAlreadyRunning(state, text_of(state / _ADDRESS)) from None
            time.sleep(_PAUSE)
        else:
            return


def _is_locked(state: Path) -> bool:
    """Whether a hub holds the lock. Tests with a shared lock, so that two commands that test at
    the same time do not take each other for a hub."""
    try:
        descriptor = os.open(state / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
