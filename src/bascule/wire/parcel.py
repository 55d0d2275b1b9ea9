"""A binary form of events: the content follows the JSON as raw bytes.

Megabytes of output cost more time to escape and to parse than to produce. A parcel is the event as
one line of JSON without its `content`, a newline, and the content in UTF-8. Between peers of ours,
who ask for it by its media type; everybody else gets JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bascule.core.errors import InvalidAction

from .jsontext import from_json, to_json

MEDIA_TYPE: Final = "application/vnd.bascule.parcel"

WORTHWHILE: Final = 64 << 10
"""Characters of content from which on a parcel is the quicker form."""


def pack(event: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """The parcel of an event with content, in two parts so that nothing large is copied."""
    around = {name: value for name, value in event.items() if name != "content"}
    return to_json(around) + b"\n", event["content"].encode()


def unpack(parcel: bytes) -> dict[str, Any]:
    """The event in a parcel. Raises `InvalidAction` if it is invalid."""
    end = parcel.find(b"\n")
    if end < 0:
        raise InvalidAction("This is no parcel: the line with the event does not end")
    event = from_json(parcel[:end])
    if not isinstance(event, dict):
        raise InvalidAction("This is no parcel: its first line holds no event")
    try:
        event["content"] = str(memoryview(parcel)[end + 1 :], "utf-8")
    except UnicodeDecodeError as error:
        raise InvalidAction(f"The content of this parcel is not UTF-8: {error}") from error
    return event
