"""Actions on the cells of Jupyter notebooks in an editor window, and their observation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .actions import Action
from .event_class import event_class
from .observations import Observation


@event_class()
class ReadCells(Action):
    """Read the cells of a notebook with their outputs, as the editor has them, saved or not."""

    kind: ClassVar[str] = "read_cells"

    path: str
    cells: Sequence[int] = ()
    """Numbers of cells, from 1. Empty: all."""
    offset: int = 0
    """How many of these cells to skip, to read the next part of a long notebook."""
    limit: int = 50
    outputs: bool = True
    output_limit: int = 4000
    """Characters of text output per cell; the middle of a longer output is left out."""
    thought: str = ""


@event_class()
class EditCells(Action):
    """Change the cells of a notebook. One undo takes all edits of the action back."""

    kind: ClassVar[str] = "edit_cells"

    path: str
    edits: Sequence[Mapping[str, Any]]
    """One after the other; each counts the cells as the edits before it left them. Each has `op`
    and `cell`, a number from 1. `insert`: `source`, and optionally `kind` and `language`; the new
    cell gets the number. `edit`: `source`, or `old` and `new`. `delete`. `move`: `to`."""
    thought: str = ""


@event_class()
class RunCells(Action):
    """Run cells of a notebook with the kernel that the user chose for it.

    The cells run in the order of the notebook. At `timeout` they are interrupted.
    """

    kind: ClassVar[str] = "run_cells"

    path: str
    cells: Sequence[int] = ()
    """Numbers of code cells, from 1. Empty: all code cells."""
    output_limit: int = 4000
    """Characters of text output per cell; the middle of a longer output is left out."""
    thought: str = ""


@event_class(kw_only=True)
class NotebookCells(Observation):
    """Cells of a notebook. `content` has the same as text."""

    kind: ClassVar[str] = "cells"

    path: str
    items: Sequence[Mapping[str, Any]] = ()
    """Each: cell (its number), kind (`code` or `markdown`), language, source, execution_count,
    state (`done`, `failed` or null; after a run also `running` or `not_run`), outputs. Each output
    is a list of: type (`text`, `image` or `error`), name (of the stream, MIME type or exception),
    text, image (index in `image_urls`, or null if it was left out)."""
    image_urls: Sequence[str] | None = None
    """Images in outputs as data URLs."""
    total: int = 0
    """Number of cells of the notebook."""
    truncated: bool = False
    """Whether cells or parts of cells were left out."""
    unsaved: bool = False
    """Whether the notebook has changes that are not saved."""
    timed_out: bool = False
    """Whether cells were interrupted at the timeout."""


NOTEBOOK_ACTIONS: Sequence[type[Action]] = (ReadCells, EditCells, RunCells)
NOTEBOOK_OBSERVATIONS: Sequence[type[Observation]] = (NotebookCells,)
