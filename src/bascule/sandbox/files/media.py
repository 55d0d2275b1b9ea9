"""Media files, which `read` returns as data URLs: images, PDF and video."""

from __future__ import annotations

from base64 import b64encode
from pathlib import PurePosixPath

_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".bmp": "image/bmp",
    ".gif": "image/gif",
    ".pdf": "application/pdf",
    ".mp4": "video/mp4",
    ".webm": "video/webm",
    ".ogg": "video/ogg",
}


def media_type(path: str) -> str | None:
    """Return the media type by file suffix alone, as clients expect; None for other files."""
    return _TYPES.get(PurePosixPath(path).suffix.lower())


def data_url(type: str, data: bytes) -> str:
    return f"data:{type};base64,{b64encode(data).decode('ascii')}"
