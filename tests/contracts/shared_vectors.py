"""Reads the test vectors of rules that exist in Python and in TypeScript.

`extension/test/vectors.ts` is the same for the extension's tests.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_VECTORS = Path(__file__).with_name("vectors")


def load(name: str) -> Any:
    return json.loads((_VECTORS / f"{name}.json").read_text(encoding="utf-8"))


def text(value: str | list[str | list[Any]]) -> str:
    """A text as vectors write it: a string, or parts of which `[part, n]` is repeated n times."""
    if isinstance(value, str):
        return value
    return "".join(part if isinstance(part, str) else part[0] * part[1] for part in value)


def data(value: str | list[str | list[Any]]) -> bytes:
    """Bytes as vectors write them: characters up to U+00FF."""
    return text(value).encode("latin-1")
