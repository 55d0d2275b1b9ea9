"""Converts any value to JSON's own types.

What has no place in JSON is handed to the caller's `otherwise`, which returns a stand-in or
raises. Text comes out free of lone surrogates, so that UTF-8 can always hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from math import isfinite
from typing import Any

MAX_DEPTH = 200
"""Lists and objects inside one another; the parser of incoming JSON stops at the same depth."""

SCALARS = frozenset({bool, int, type(None)})
"""Types whose values are JSON as they are."""

Otherwise = Callable[[object], Any]


def well_formed(text: str) -> str:
    """`text` with each lone surrogate replaced by U+FFFD, and pairs joined.

    Such text comes from file names that are not UTF-8. ASCII is known by a flag of the string,
    and other text is checked by one pass in C: this is called on output of many megabytes.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def plain(value: object, otherwise: Otherwise, *, depth: int = 0) -> Any:
    """`value` made of JSON's own types only; containers are copied."""
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
