"""Encodes and decodes chunks of output from a running command."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from bascule.core.contracts import OutputProgress

from . import _validation_errors


def encode_progress(progress: OutputProgress) -> dict[str, Any]:
    """The frame for `progress`. `data` is Base64, since a chunk may end inside a character."""
    return {
        "shell": progress.shell,
        "offset": progress.offset,
        "data": b64encode(progress.data).decode("ascii"),
    }


def decode_progress(frame: Mapping[str, Any]) -> OutputProgress:
    """The progress in a frame. Raises `InvalidAction` for a wrong or missing field."""
    shell = _field(frame, "shell", str, "a string")
    offset = _field(frame, "offset", int, "an integer")
    data = _field(frame, "data", str, "a string")
    try:
        return OutputProgress(shell, offset, b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        raise _validation_errors.invalid("progress", "data", "Base64", data) from None


def _field(frame: Mapping[str, Any], name: str, cls: type, expected: str) -> Any:
    if name not in frame:
        raise _validation_errors.missing("progress", name)
    value = frame[name]
    if type(value) is not cls:
        raise _validation_errors.invalid("progress", name, expected, value)
    return value
