"""Reads fields of JSON messages. Each function raises `InvalidRequest` for a value of a wrong kind.

A missing field and null have the default value of the field's type, as in protobuf's JSON.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from bascule.core.errors import InvalidRequest


def text_of(message: Mapping[str, Any], name: str) -> str:
    value = message.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidRequest(f"`{name}` must be a text, not {type(value).__name__}")
    return value


def flag_of(message: Mapping[str, Any], name: str, *, default: bool = False) -> bool:
    value = message.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise InvalidRequest(f"`{name}` must be true or false, not {value!r}")
    return value


def number_of(message: Mapping[str, Any], name: str, *, default: int = 0) -> int:
    value = message.get(name)
    if value is None:
        return default
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequest(f"`{name}` must be an integer, not {value!r}")
    return value


def object_of(message: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = message.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidRequest(f"`{name}` must be an object, not {type(value).__name__}")
    return value


def texts_of(message: Mapping[str, Any], name: str) -> dict[str, str]:
    """An object whose values are texts."""
    found = object_of(message, name)
    for key, value in found.items():
        if not isinstance(value, str):
            raise InvalidRequest(f"`{name}.{key}` must be a text, not {type(value).__name__}")
    return found


def list_of(message: Mapping[str, Any], name: str) -> list[str]:
    value = message.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InvalidRequest(f"`{name}` must be a list of texts")
    return value


def bytes_of(message: Mapping[str, Any], name: str) -> bytes:
    """Base64, with either alphabet, as protobuf's JSON allows."""
    text = text_of(message, name).replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(f"`{name}` is not Base64: {error}") from None
