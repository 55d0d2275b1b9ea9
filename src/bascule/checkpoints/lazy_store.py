"""A checkpoint store that the first call opens, and the notices about files that it cannot keep.

Sandboxes and VS Code windows record with a `LazyStore`. All calls block.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from bascule.core.errors import BasculeError

from .left_out import left_out_notice
from .limits import CheckpointLimits
from .store import CheckpointStore

logger = logging.getLogger(__name__)


class LazyStore:
    """Opens the store once. If the workspace cannot have checkpoints, each later call raises the
    same error.

    `on_open` is called with the new store before any other use. `on_notice` gets each notice once.
    """

    def __init__(
        self,
        directory: Path,
        workspace: Path,
        limits: CheckpointLimits,
        *,
        on_notice: Callable[[str], None],
        on_open: Callable[[CheckpointStore], None] = lambda _: None,
    ) -> None:
        self._directory, self._workspace, self._limits = directory, workspace, limits
        self._on_notice = on_notice
        self._on_open = on_open
        self._store: CheckpointStore | None = None
        self._refusal: BasculeError | None = None
        self._reported: set[str] = set()
        self._has_reported_left_out = False

    def get(self) -> CheckpointStore:
        """The open store. Raises `CheckpointsUnavailable` for a workspace that gets no
        checkpoints."""
        if self._refusal is not None:
            raise self._refusal
        if self._store is None:
            try:
                store = CheckpointStore(self._directory, self._workspace, self._limits)
            except BasculeError as error:
                self._refusal = error
                raise
            try:
                self._on_open(store)
            except BaseException:
                store.close()
                raise
            self._store = store
        return self._store

    def scan(self) -> None:
        """Store the workspace as it is now, so that the next `begin` has less to copy."""
        try:
            self.get().scan()
        except (BasculeError, OSError) as error:
            self.report(f"There are no checkpoints: {error}")
        else:
            self.report_left_out()

    def report_left_out(self) -> None:
        """Report the files that checkpoints leave out, if there are any. Reports only once."""
        if not self._has_reported_left_out and (notice := left_out_notice(self.get())):
            self._has_reported_left_out = True
            self.report(notice)

    def report(self, notice: str) -> None:
        """Log a notice and pass it to `on_notice`, unless it was reported before."""
        if notice not in self._reported:
            self._reported.add(notice)
            logger.warning("%s", notice)
            self._on_notice(notice)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
