"""Encodes timeline entries, with long values shortened for display."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from bascule.core.timeline import TimelineEntry

MAX_TEXT: Final = 64 << 10
"""Maximum characters of one text. A longer text is cut in the middle."""
_LARGE_FIELDS: Final = frozenset(
    {"dom_object", "axtree_object", "extra_element_properties", "set_of_marks", "tools"}
)
"""Large fields that only programs read."""
_PICTURES: Final = frozenset({"screenshot", "image_urls"})
_MAX_PICTURE: Final = 4 << 20
"""Maximum characters of a picture. A larger picture is left out."""


def encode_entry(entry: TimelineEntry) -> dict[str, Any]:
    return {"n": entry.number, "kind": entry.kind, "time": entry.time, **entry.data}


def decode_entry(data: Mapping[str, Any]) -> TimelineEntry:
    """The entry that `encode_entry` encoded."""
    rest = {name: value for name, value in data.items() if name not in ("n", "kind", "time")}
    return TimelineEntry(int(data["n"]), str(data["kind"]), float(data["time"]), rest)


def brief(value: Any, *, name: str = "") -> Any:
    """An event with long values shortened."""
    if isinstance(value, str):
        return _cut(
            value, _MAX_PICTURE if name in _PICTURES else MAX_TEXT, is_text=name not in _PICTURES
        )
    if isinstance(value, Mapping):
        kept = ((str(key), each) for key, each in value.items() if key not in _LARGE_FIELDS)
        return {key: brief(each, name=key) for key, each in kept}
    if isinstance(value, list | tuple):
        return [brief(each, name=name) for each in value]
    return value


def whole(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event with full texts and pictures, but without the large fields for programs."""
    return {
        name: {key: each for key, each in part.items() if key not in _LARGE_FIELDS}
        if isinstance(part, Mapping)
        else part
        for name, part in event.items()
    }


def size_of(value: Any) -> int:
    """The approximate size in bytes."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return 16 + sum(len(str(key)) + size_of(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return 16 + sum(map(size_of, value))
    return 8


def output_data(cause: str, data: bytes) -> dict[str, Any]:
    """A chunk of output. `data` is Base64, since a chunk may end inside a character."""
    return {"cause": cause, "data": base64.b64encode(data).decode()}


def _cut(text: str, max_length: int, *, is_text: bool) -> str:
    if len(text) <= max_length:
        return text
    if not is_text:
        return ""
    half = max_length // 2
    left_out = len(text) - max_length
    return f"{text[:half]}\n[… {left_out} characters are left out here …]\n{text[-half:]}"
