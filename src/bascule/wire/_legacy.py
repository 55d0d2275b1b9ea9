"""Old field names that OpenHands' clients and stored events still use.

Used only if an event has a field that its kind does not know, so current events cost nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

_RENAMED_ARGS = {"is_confirmed": "confirmation_state", "images_urls": "image_urls"}
_DROPPED_ARGS = ("keep_prompt", "task_completed", "translated_ipython_code")
_MOVED_TO_METADATA = {"exit_code": "exit_code", "command_id": "pid"}
_DROPPED_EXTRAS = ("formatted_output_and_error",)


def modern_args(args: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """`args` with current names. Names that this kind knows are never changed."""
    modern = dict(args)
    for old, new in _RENAMED_ARGS.items():
        if old in modern and new in known:
            value = modern.pop(old)
            if value is not None:
                modern[new] = value
    for name in _DROPPED_ARGS:
        if name not in known:
            modern.pop(name, None)
    return modern


def modern_extras(extras: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """`extras` with current names; values already in `metadata` are kept."""
    modern = dict(extras)
    for name in _DROPPED_EXTRAS:
        if name not in known:
            modern.pop(name, None)
    metadata = modern.get("metadata", {})
    if "metadata" in known and isinstance(metadata, Mapping):
        moved = {new: modern.pop(old) for old, new in _MOVED_TO_METADATA.items() if old in modern}
        if moved:
            modern["metadata"] = {**moved, **metadata}
    return modern
