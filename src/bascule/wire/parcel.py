"""A binary form of events: the content follows the JSON as raw bytes.

Escaping and parsing megabytes of output as JSON takes longer than producing them. A parcel is the
event without its `content` as one line of JSON, a newline, and the content in UTF-8. Bascule's own
clients request it by its media type; all other clients get JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bascule.core.errors import InvalidAction

from .jsontext import from_json, to_json

MEDIA_TYPE: Final = "application/vnd.bascule.parcel"

MIN_PARCEL_LENGTH: Final = 64 << 10
"""Characters of content from which a parcel is faster than JSON."""


def pack(event: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """The parcel of an event with content, in two parts so that nothing large is copied."""
    envelope = {name: value for name, value in event.items() if name != "content"}
    return to_json(envelope) + b"\n", event["content"].encode()


def unpack(parcel: bytes) -> dict[str, Any]:
    """The event in a parcel. Raises `InvalidAction` if it is invalid."""
    end = parcel.find(b"\n")
    if end < 0:
        raise InvalidAction("Not a valid parcel: the line with the event does not end")
    event = from_json(parcel[:end])
    if not isinstance(event, dict):
        raise InvalidAction("Not a valid parcel: its first line holds no event")
    try:
        event["content"] = str(memoryview(parcel)[end + 1 :], "utf-8")
    except UnicodeDecodeError as error:
        raise InvalidAction(f"The content of this parcel is not UTF-8: {error}") from error
    return event
