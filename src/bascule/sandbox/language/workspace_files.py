"""Finds the files of a workspace that changed since a language server was last notified of them.

Servers do not notice what editor actions, commands and other programs write.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bascule.checkpoints.walk import GENERATED

MAX_FILES: Final = 50_000
"""Maximum number of source files that are compared; changes of further files are not noticed."""
_NOT_SOURCES: Final = GENERATED | {".git", ".hg", ".svn"}
_ENVIRONMENT: Final = "pyvenv.cfg"
"""File that marks a directory as a virtual environment."""

FileIdentity = tuple[int, int, int]
"""Inode, size and time of the last change."""


@dataclass(frozen=True, slots=True)
class FileChanges:
    created: tuple[str, ...]
    changed: tuple[str, ...]
    deleted: tuple[str, ...]


class WorkspaceFiles:
    """The source files of a workspace, as they were at the last `scan`. The methods block."""

    def __init__(self, root: Path, is_source: Callable[[str], bool]) -> None:
        """`is_source`: whether a file with this name is watched."""
        self._root = str(root)
        self._is_source = is_source
        self._known: dict[str, FileIdentity] = {}

    def scan(self) -> FileChanges:
        """Compare the files with the last scan. At the first scan all files are new."""
        before = self._known
        now: dict[str, FileIdentity] = {}
        pending = [self._root]
        while pending and len(now) < MAX_FILES:
            self._read_directory(pending.pop(), pending, now)
        self._known = now
        return FileChanges(
            created=tuple(path for path in now if path not in before),
            changed=tuple(p for p, found in now.items() if before.get(p, found) != found),
            deleted=tuple(path for path in before if path not in now),
        )

    def identity(self, path: str) -> FileIdentity | None:
        """The file at the last scan; None if it was not among the source files."""
        return self._known.get(path)

    def _read_directory(
        self, directory: str, pending: list[str], now: dict[str, FileIdentity]
    ) -> None:
        below = []
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in _NOT_SOURCES:
                            below.append(entry.path)
                    elif entry.name == _ENVIRONMENT:
                        return
                    elif self._is_source(entry.name) and entry.is_file(follow_symlinks=False):
                        now[entry.path] = identity_of(entry.stat(follow_symlinks=False))
        except OSError:
            return  # removed meanwhile, or not readable for the sandbox
        pending += below


def identity_of(found: os.stat_result) -> FileIdentity:
    return found.st_ino, found.st_size, found.st_mtime_ns
