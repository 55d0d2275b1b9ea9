"""`/etc` of sessions: a tree of read-only mounts that the zygote creates once for all sessions.

Bubblewrap reads the list of all mounts again for each bind mount that it creates, so the forty
files and directories of the host's `/etc` took longer than the rest of its work. Bubblewrap binds
this tree in one step.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from . import bind_mounts

State = Mapping[str, tuple[int, int]]
"""Device and inode of the file or directory that is shown at each path."""


class EtcTree:
    """Mounts below `path`, a directory that only the calling process and its forks see.

    Sessions see new content of the host's files. A replaced file is a new inode, which the
    existing mounts do not show. `refresh` then creates the mounts again, for sessions that start
    later.
    """

    def __init__(self, path: Path, *, empty: Iterable[str]) -> None:
        """`empty`: files of `/etc` that have their own content in each session."""
        self._path = path
        self._empty = tuple(empty)
        self._state: State | None = None

    def refresh(self, sources: Mapping[str, str]) -> None:
        """Mount each of `sources`: paths on the host by their path in a session.

        After an `OSError` this method can be called again.
        """
        state = _state(sources)
        if state == self._state:
            return
        # The state is unknown until the end: if one of these steps fails, the next start repeats
        # all of them.
        self._state = None
        if self._path.is_mount():
            bind_mounts.unmount(self._path)
        self._path.mkdir(mode=0o755, exist_ok=True)
        bind_mounts.mount_tmpfs(self._path, mode=0o755)
        for name in self._empty:
            (self._path / name).touch(mode=0o644)
        for seen in state:
            self._show(sources[seen], self._path / Path(seen).relative_to("/etc"))
        self._state = state

    def _show(self, source: str, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(source, os.O_PATH | os.O_CLOEXEC)
        try:
            tree = bind_mounts.clone(descriptor, read_only=True, executable=True)
        finally:
            os.close(descriptor)
        try:
            bind_mounts.make_target(tree, target)
            bind_mounts.attach(tree, target)
        finally:
            os.close(tree)


def _state(sources: Mapping[str, str]) -> State:
    """The state of existing files. Files that were removed from the host are not shown."""
    found = {}
    for seen, source in sources.items():
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(source)  # noqa: PTH116  # called forty times at every start
            found[seen] = status.st_dev, status.st_ino
    return found
