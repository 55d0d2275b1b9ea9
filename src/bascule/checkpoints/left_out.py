"""Says in one sentence what the checkpoints of a workspace leave out."""

from __future__ import annotations

from typing import Final

from bascule.core.printable import one_line

from .limits import human_size
from .store import CheckpointStore

_MAX_NAMED_FILES: Final = 5
"""Maximum number of left-out files that the sentence names."""


def left_out_notice(store: CheckpointStore) -> str:
    """The sentence; empty if nothing is left out."""
    if not (left_out := store.not_kept()):
        return ""
    named = ", ".join(
        f"{one_line(each.path)} ({human_size(each.size)}, {each.reason})"
        if each.size
        else f"{one_line(each.path)} ({each.reason})"
        for each in left_out[:_MAX_NAMED_FILES]
    )
    unnamed = (
        f" and {len(left_out) - _MAX_NAMED_FILES} more" if len(left_out) > _MAX_NAMED_FILES else ""
    )
    return f"Checkpoints leave out {named}{unnamed}; a restore does not bring these back"
