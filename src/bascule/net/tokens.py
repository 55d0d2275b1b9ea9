"""Checks that tokens are JSON values.

Python code could produce any object as a token. A trace could then not be written, or would be read
back as another value, and a replay would differ from its run.
"""

from __future__ import annotations

import math
from typing import Any

from .sizes import MAX_DEPTH


def ensure_tokens(value: Any) -> None:
    """Raise `TypeError` or `ValueError` if a value at any depth is not JSON."""
    remaining: list[tuple[Any, int]] = [(value, 0)]
    while remaining:
        each, depth = remaining.pop()
        if depth > MAX_DEPTH:
            raise ValueError(f"a token is nested more than {MAX_DEPTH} levels deep")
        if isinstance(each, dict):
            for key in each:
                if not isinstance(key, str):
                    raise TypeError(f"{_type_message(key)} (a key); write it as a string")
            remaining.extend((inner, depth + 1) for inner in each.values())
        elif isinstance(each, list | tuple):
            remaining.extend((inner, depth + 1) for inner in each)
        elif isinstance(each, float):
            if not math.isfinite(each):
                raise ValueError(f"{each} cannot be a token; tokens are JSON values")
        elif each is not None and not isinstance(each, str | int):
            raise TypeError(
                f"{_type_message(each)}; tokens are JSON values: texts, numbers, lists, …"
            )


def _type_message(value: Any) -> str:
    return f"a {type(value).__name__} cannot be a token"
