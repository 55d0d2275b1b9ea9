"""Defines OpenHands' `file_editor` skill in every IPython kernel, for cells to call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bascule.core.actions import FileEdit
from bascule.sandbox.files.editor import FileEditor
from bascule.sandbox.files.paths import Paths
from bascule.sandbox.files.storage import Storage

PRELUDE: Final = f"globals().update(__import__({__name__!r}, fromlist=['skills']).skills())"
"""Code that a kernel runs before its first cell."""


def skills() -> Mapping[str, Callable[..., str]]:
    """Return the skills by name. The kernel has its own editor, which runs as the kernel's user and
    has its own history for `undo_edit`."""
    editor = FileEditor(Storage(Paths()))

    def file_editor(
        command: str,
        path: str,
        file_text: str | None = None,
        view_range: Sequence[int] | None = None,
        old_str: str | None = None,
        new_str: str | None = None,
        insert_line: int | None = None,
        enable_linting: bool = False,  # ignored; OpenHands' signature has it
    ) -> str:
        """View or change a file: view, create, str_replace, insert, undo_edit. Returns a message
        for the agent; the message of a failure begins with ERROR."""
        del enable_linting
        action = FileEdit(
            path,
            command=command,
            file_text=file_text,
            view_range=None if view_range is None else tuple(view_range),
            old_str=old_str,
            new_str=new_str,
            insert_line=insert_line,
        )
        return editor.edit(action, str(Path.cwd())).content

    return {"file_editor": file_editor}
