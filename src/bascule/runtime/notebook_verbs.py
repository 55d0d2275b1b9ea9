"""Convenience methods for the notebooks of a VS Code window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bascule.core.notebook_events import EditCells, NotebookCells, ReadCells, RunCells

from .verbs import Verbs


class NotebookVerbs(Verbs):
    """`Verbs`, and methods for the cells of `.ipynb` notebooks, open or not.

    Cells have numbers from 1. Unsaved changes of the user are read, and stay unsaved.
    """

    async def read_cells(
        self,
        path: str,
        *,
        cells: Sequence[int] = (),
        offset: int = 0,
        limit: int = 50,
        outputs: bool = True,
        output_limit: int = 4000,
    ) -> NotebookCells:
        """Cells with their outputs; without `cells`, all. `output_limit`: characters per cell."""
        action = ReadCells(
            path,
            cells=cells,
            offset=offset,
            limit=limit,
            outputs=outputs,
            output_limit=output_limit,
        )
        return await self._do(action, NotebookCells)

    async def edit_cells(
        self, path: str, edits: Sequence[Mapping[str, Any]], *, timeout: float | None = None
    ) -> NotebookCells:
        """Insert, edit, delete and move cells, as one step for undo.

        Each edit has `op` and `cell`; see `EditCells.edits`.
        """
        return await self._do(EditCells(path, edits, timeout=timeout), NotebookCells)

    async def run_cells(
        self,
        path: str,
        cells: Sequence[int] = (),
        *,
        output_limit: int = 4000,
        timeout: float | None = None,
    ) -> NotebookCells:
        """Run code cells (without `cells`, all) with the kernel that the user chose.

        After `timeout` they are interrupted.
        """
        action = RunCells(path, cells=cells, output_limit=output_limit, timeout=timeout)
        return await self._do(action, NotebookCells)
