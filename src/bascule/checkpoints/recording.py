"""Records checkpoints around actions, on a store that the first call opens. Blocks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from bascule.core.errors import BasculeError

from .edited_path import EditedPath, paths_inside
from .left_out import left_out_notice
from .limits import CheckpointLimits
from .store import CheckpointStore

logger = logging.getLogger(__name__)


class StoreRecording:
    """Keeps the workspace's contents before and after each action.

    An action runs without a checkpoint if one cannot be made. `on_notice` gets the reason once, and
    also what checkpoints leave out. Several threads must not use it at the same time.
    """

    def __init__(self, directory: Path, workspace: Path, limits: CheckpointLimits) -> None:
        self._directory, self._workspace, self._limits = directory, workspace, limits
        self._store: CheckpointStore | None = None
        self._refusal: BasculeError | None = None
        self._open: set[int] = set()
        self._told: set[str] = set()
        self._has_told_limits = False
        self.on_notice: Callable[[str], None] = lambda _: None

    def begin(self, agent: str, title: str, edited: EditedPath | None = None) -> int | None:
        """Store the state before an action, which changes `edited` or, if None, any path. Returns
        None if it gets no checkpoint."""
        try:
            store = self.store()
            paths = None if edited is None else edited.changed_in(store)
            if paths is not None and not paths:
                return None
            number = store.begin(agent, title, paths=paths)
        except (BasculeError, OSError) as error:
            self._report_notice(f"There is no checkpoint of this action: {error}")
            return None
        self._open.add(number)
        self._tell_limits(store)
        return number

    def end(self, checkpoint: int) -> int | None:
        """Record the changes since `begin`. None if there are none."""
        if checkpoint not in self._open:
            return None
        self._open.discard(checkpoint)
        try:
            recorded = self.store().end(checkpoint)
        except (BasculeError, OSError) as error:
            self._report_notice(f"The changes of this action were not recorded: {error}")
            return None
        return checkpoint if recorded.changes or recorded.notes else None

    def saved(self, paths: Sequence[str]) -> None:
        """Record that the user saved these absolute paths, which are the user's changes even while
        an agent's command runs."""
        try:
            store = self.store()
            if found := paths_inside(map(Path, paths), store):
                store.observe(found)
        except (BasculeError, OSError) as error:
            self._report_notice(f"What the user saves cannot be recorded: {error}")

    def look(self) -> None:
        """Store the workspace as it is now, so that the next `begin` has less to copy."""
        try:
            store = self.store()
            store.look()
        except (BasculeError, OSError) as error:
            self._report_notice(f"There are no checkpoints: {error}")
        else:
            self._tell_limits(store)

    def store(self) -> CheckpointStore:
        """Raises `CheckpointsUnavailable` for a workspace that gets no checkpoints."""
        if self._refusal is not None:
            raise self._refusal
        if self._store is None:
            try:
                self._store = CheckpointStore(self._directory, self._workspace, self._limits)
            except BasculeError as error:
                self._refusal = error
                raise
        return self._store

    def close(self) -> None:
        """Close the store. Actions that have not ended are recorded up to now."""
        for checkpoint in sorted(self._open):
            self.end(checkpoint)
        if self._store is not None:
            self._store.close()

    def _tell_limits(self, store: CheckpointStore) -> None:
        if not self._has_told_limits and (notice := left_out_notice(store)):
            self._has_told_limits = True
            self._report_notice(notice)

    def _report_notice(self, notice: str) -> None:
        """Log a notice and pass it on, once."""
        if notice not in self._told:
            self._told.add(notice)
            logger.warning("%s", notice)
            self.on_notice(notice)
