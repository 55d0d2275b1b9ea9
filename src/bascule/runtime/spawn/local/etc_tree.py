"""`/etc` of sessions: a tree of read-only mounts that the zygote makes once for all of them.

Bubblewrap reads the list of all mounts again for each bind mount it makes, so the forty files and
directories that sessions see of the machine's `/etc` took longer than the rest of its work. It
binds this tree in one step.
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

    Rewritten files of the machine are seen as they are. A file that was replaced is another inode,
    which the mounts do not follow: `refresh` then makes them anew, for sessions that start later.
    """

    def __init__(self, path: Path, *, empty: Iterable[str]) -> None:
        """`empty`: files of `/etc` that each session has with its own content."""
        self._path = path
        self._empty = tuple(empty)
        self._state: State | None = None

    def refresh(self, sources: Mapping[str, str]) -> None:
        """Show each of `sources`, which are paths on the machine by their path in a session.

        Raises `OSError`, after which it can be called again.
        """
        state = _state(sources)
        if state == self._state:
            return
        # Unknown until the end: where one of these steps fails, the next start makes all anew.
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
            tree = bind_mounts.clone(descriptor, read_only=True, programs=True)
        finally:
            os.close(descriptor)
        try:
            bind_mounts.make_target(tree, target)
            bind_mounts.attach(tree, target)
        finally:
            os.close(tree)


def _state(sources: Mapping[str, str]) -> State:
    """Of those that exist: what was removed from the machine is not shown."""
    found = {}
    for seen, source in sources.items():
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(source)  # noqa: PTH116  # forty of them at every start
            found[seen] = status.st_dev, status.st_ino
    return found
