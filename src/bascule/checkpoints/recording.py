"""Records a checkpoint for each action. The first call opens the store. All calls block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bascule.core.errors import BasculeError

from .edited_path import EditedPath, paths_inside
from .lazy_store import LazyStore
from .limits import CheckpointLimits
from .store import CheckpointStore


class ActionRecorder:
    """Records a checkpoint for each action: the workspace's contents before and after the action.

    If a checkpoint cannot be made, the action runs without one. `on_notice` is called once with the
    reason, and also with the paths that checkpoints leave out. Several threads must not use an
    object of this class at the same time.
    """

    def __init__(self, directory: Path, workspace: Path, limits: CheckpointLimits) -> None:
        self._store = LazyStore(
            directory, workspace, limits, on_notice=lambda notice: self.on_notice(notice)
        )
        self._open: set[int] = set()
        self.on_notice: Callable[[str], None] = lambda _: None

    def begin(self, agent: str, title: str, edited: EditedPath | None = None) -> int | None:
        """Store the state before an action. The action changes only `edited`. If `edited` is
        None, the action may change any path. Returns None if the action gets no checkpoint."""
        try:
            store = self.store()
            paths = None if edited is None else edited.paths_to_change(store)
            if paths is not None and not paths:
                return None
            number = store.begin(agent, title, paths=paths)
        except (BasculeError, OSError) as error:
            self._store.report(f"There is no checkpoint of this action: {error}")
            return None
        self._open.add(number)
        self._store.report_left_out()
        return number

    def end(self, checkpoint: int) -> int | None:
        """Record the changes since `begin`. Returns the checkpoint, or None if nothing changed."""
        if checkpoint not in self._open:
            return None
        self._open.discard(checkpoint)
        try:
            recorded = self.store().end(checkpoint)
        except (BasculeError, OSError) as error:
            self._store.report(f"The changes of this action were not recorded: {error}")
            return None
        return checkpoint if recorded.changes or recorded.notes else None

    def saved(self, paths: Sequence[str]) -> None:
        """Record that the user saved these absolute paths. Their changes count as the user's, even
        while an agent's command runs."""
        try:
            store = self.store()
            if found := paths_inside(map(Path, paths), store):
                store.observe(found)
        except (BasculeError, OSError) as error:
            self._store.report(f"What the user saves cannot be recorded: {error}")

    def scan(self) -> None:
        """Store the workspace as it is now, so that the next `begin` has less to copy."""
        self._store.scan()

    def store(self) -> CheckpointStore:
        """The open store. Raises `CheckpointsUnavailable` for a workspace that gets no
        checkpoints."""
        return self._store.get()

    def close(self) -> None:
        """Close the store. Actions that have not ended are recorded up to now."""
        for checkpoint in sorted(self._open):
            self.end(checkpoint)
        self._store.close()
