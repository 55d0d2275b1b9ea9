"""JSON encoding and decoding of bytes: fast for very long strings, strict otherwise.

NaN and Infinity are refused in both directions: JSON cannot express them, and peers treat them
differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import pydantic_core

from bascule.core.errors import InvalidAction

from . import _validation_errors
from .plain import plain

_SCANNED = 100_000
"""Up to this size in bytes, searching the text for NaN is faster than walking through the value."""


def to_json(value: object) -> bytes:
    """`value` as compact UTF-8; lone surrogates are replaced.

    Raises `InvalidAction` for values JSON cannot express.
    """
    try:
        text = pydantic_core.to_json(value, inf_nan_mode="constants")
    except pydantic_core.PydanticSerializationError:
        text = pydantic_core.to_json(plain(value, _validation_errors.refuse))
    suspect = len(text) > _SCANNED or b"NaN" in text or b"Infinity" in text
    if suspect and _has_non_finite(value):
        raise InvalidAction("NaN and Infinity cannot be written as JSON")
    return text


def from_json(data: bytes | bytearray | str) -> Any:
    """Decode JSON. Raises `InvalidAction` for anything malformed.

    Nesting deeper than 200 and text with lone surrogates count as malformed.
    """
    try:
        return pydantic_core.from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidAction(f"This is not valid JSON: {error}") from error


def _has_non_finite(value: object) -> bool:
    if isinstance(value, float):
        return not isfinite(value)
    if isinstance(value, Mapping):
        return any(map(_has_non_finite, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(_has_non_finite, value))
    return False
