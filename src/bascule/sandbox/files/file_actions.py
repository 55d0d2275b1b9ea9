"""Passes each file action to its handler. A sandbox imports this with its first file action."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bascule.core.actions import (
    Action,
    FileEdit,
    FileRead,
    FileWrite,
    Glob,
    Grep,
    ListDir,
    MakeDir,
    Remove,
    RemoveDir,
)
from bascule.core.observations import Observation

from .editor import FileEditor
from .entries import FileEntries
from .files import SandboxFiles
from .paths import FileOwner, Paths
from .search import Search
from .storage import Storage
from .text_changes import TextChanges
from .transfers import FileTransfers

_Execute = Callable[[Any, str], Observation]


class FileActions:
    """The parts of one sandbox that work on files. All methods block; call them in a thread."""

    def __init__(self, *, roots: Sequence[Path], owner: FileOwner | None) -> None:
        """`roots`: directories in which files may be read and written; empty: everywhere."""
        self.paths = Paths(tuple(roots) or None, owner=owner)
        storage = Storage(self.paths)
        self.files = SandboxFiles(storage)
        self.transfers = FileTransfers(storage)
        self.entries = FileEntries(storage)
        self._editor = FileEditor(storage)
        self.changes = TextChanges(storage, self._editor.history)
        search = Search(self.paths, ripgrep=shutil.which("rg"))
        self._by_kind: Mapping[type[Action], _Execute] = {
            FileRead: self._read,
            FileWrite: self.files.write,
            FileEdit: self._editor.edit,
            MakeDir: self.files.make_dir,
            RemoveDir: self.files.remove_dir,
            Remove: self.files.remove,
            ListDir: self.files.list_dir,
            Glob: search.glob,
            Grep: search.grep,
        }

    def execute(self, action: Action, cwd: str) -> Observation:
        """Execute `action`; relative paths start from `cwd`. Raises `KeyError` for other kinds."""
        return self._by_kind[type(action)](action, cwd)

    def _read(self, action: FileRead, cwd: str) -> Observation:
        read = self._editor.view if action.impl_source == "oh_aci" else self.files.read
        return read(action, cwd)
