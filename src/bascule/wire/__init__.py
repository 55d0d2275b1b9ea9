"""Values to and from what travels: events, errors, the schema of both. No sockets."""

from .errors import error_from_wire, error_observation, error_to_wire
from .events import (
    decode_action,
    decode_observation,
    encode_action,
    encode_observation,
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
    "error_from_wire",
    "error_observation",
    "error_to_wire",
    "from_json",
    "json_schema",
    "reply_envelope",
    "to_json",
]
