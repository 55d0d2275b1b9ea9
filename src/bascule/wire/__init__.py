"""Encodes and decodes events and errors, and generates their schema. No sockets.

A name is imported when it is first used: what scripts load of this room (`bridge`) must not
cost them the validation of events.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import error_from_wire, error_observation, error_to_wire
    from .events import (
        decode_action,
        decode_observation,
        encode_action,
        encode_observation,
        ensure_valid,
        reply_envelope,
    )
    from .jsontext import from_json, to_json
    from .progress import decode_progress, encode_progress
    from .schema import json_schema

__all__ = [
    "decode_action",
    "decode_observation",
    "decode_progress",
    "encode_action",
    "encode_observation",
    "encode_progress",
    "ensure_valid",
    "error_from_wire",
    "error_observation",
    "error_to_wire",
    "from_json",
    "json_schema",
    "reply_envelope",
    "to_json",
]

_HOMES = {
    "error_from_wire": "errors",
    "error_observation": "errors",
    "error_to_wire": "errors",
    "decode_action": "events",
    "decode_observation": "events",
    "encode_action": "events",
    "encode_observation": "events",
    "ensure_valid": "events",
    "reply_envelope": "events",
    "from_json": "jsontext",
    "to_json": "jsontext",
    "decode_progress": "progress",
    "encode_progress": "progress",
    "json_schema": "schema",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value
