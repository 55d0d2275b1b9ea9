"""The paths of the workspace that an edit of one path changes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bascule.core.errors import InvalidPath

from .store import CheckpointStore


@dataclass(frozen=True, slots=True)
class EditedPath:
    """The only path that an action changes."""

    path: Path
    """Absolute; links and `..` may be unresolved."""
    follows_links: bool
    """Whether the action changes the target of a link: edits do, removals do not."""

    def paths_to_change(self, store: CheckpointStore) -> Sequence[str] | None:
        """The paths that the action will change, relative to the workspace. None if any path may
        change, because the action removes a directory that contains the workspace."""
        entry = self.path.parent.resolve() / self.path.name
        # The link itself may be in the workspace, and its target elsewhere.
        touched = {entry, self.path.resolve()} if self.follows_links else {entry}
        if any(store.workspace.is_relative_to(each) for each in touched):
            return None
        return paths_inside(touched, store)


def paths_inside(paths: Iterable[Path], store: CheckpointStore) -> list[str]:
    """Those of `paths` that are in the workspace, relative to the workspace."""
    found = []
    for each in paths:
        try:
            found.append(store.relative(os.fspath(each)))
        except InvalidPath:
            continue  # outside of the workspace, or a file inside `.git`
    return found
