"""Converts any value to JSON's own types.

For a value that JSON cannot express, the caller's `otherwise` returns a replacement or raises.
Lone surrogates in text are replaced, so that UTF-8 can always encode the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from math import isfinite
from typing import Any

MAX_DEPTH = 200
"""Maximum nesting of lists and objects. The parser of incoming JSON has the same limit."""

SCALARS = frozenset({bool, int, type(None)})
"""Types whose values need no conversion."""

Otherwise = Callable[[object], Any]


def well_formed(text: str) -> str:
    """`text` with each lone surrogate replaced by U+FFFD, and pairs joined.

    Lone surrogates come from file names that are not UTF-8. Callers pass output of many megabytes,
    so this is fast: `isascii` only reads a flag, and `encode` is one pass in C.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def plain(value: object, otherwise: Otherwise, *, depth: int = 0) -> Any:
    """`value` converted to JSON's own types. Containers are copied."""
    if type(value) is str:
        return well_formed(value)
    if type(value) in SCALARS:
        return value
    if depth > MAX_DEPTH:
        return otherwise(value)
    match value:
        case float():
            return float(value) if isfinite(value) else otherwise(value)
        case str():
            return well_formed(str.__str__(value))
        case int():
            return int(value)
        case Mapping():
            return {
                _key(key, otherwise): plain(item, otherwise, depth=depth + 1)
                for key, item in value.items()
            }
        case bytes() | bytearray() | memoryview():
            return otherwise(value)
        case Sequence() | Set():
            return [plain(item, otherwise, depth=depth + 1) for item in value]
        case _:
            return otherwise(value)


def _key(key: object, otherwise: Otherwise) -> str:
    return well_formed(key if isinstance(key, str) else str(otherwise(key)))
