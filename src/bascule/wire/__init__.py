"""Encodes and decodes events and errors, and generates their schema. No sockets.

Names are imported on first use: scripts load `bridge`, and must not load event validation with it.
"""

from typing import TYPE_CHECKING

from bascule.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .errors import error_from_wire, error_observation, error_to_wire
    from .events import (
        decode_action,
        decode_observation,
        encode_action,
        encode_observation,
        ensure_valid,
        prepare_kinds,
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
    "prepare_kinds",
    "reply_envelope",
    "to_json",
]

_MODULES = {
    "error_from_wire": "errors",
    "error_observation": "errors",
    "error_to_wire": "errors",
    "decode_action": "events",
    "decode_observation": "events",
    "encode_action": "events",
    "encode_observation": "events",
    "ensure_valid": "events",
    "prepare_kinds": "events",
    "reply_envelope": "events",
    "from_json": "jsontext",
    "to_json": "jsontext",
    "decode_progress": "progress",
    "encode_progress": "progress",
    "json_schema": "schema",
}

__getattr__ = lazy_exports(__name__, _MODULES)
