"""Uploads to and downloads from a session. Temporary files on the hub are removed."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import quote

from starlette.datastructures import UploadFile
from starlette.responses import Response

from bascule.core.errors import InvalidPath, IsADirectory
from bascule.hub.sessions.session_runtime import SessionRuntime
from bascule.serving.owning_stream import OwningStream

_MAX_NAME_BYTES: Final = 255
"""Maximum bytes of a file name, as in Linux file systems."""


async def upload(runtime: SessionRuntime, file: UploadFile, path: str) -> int:
    """Write the file to `path`, whatever its original name. Returns its size in bytes."""
    target = _absolute(path)
    temporary_dir = await asyncio.to_thread(tempfile.mkdtemp, prefix="bascule-")
    try:
        size = await asyncio.to_thread(_copy, file, Path(temporary_dir, target.name))
        await runtime.upload(Path(temporary_dir, target.name), str(target.parent))
    finally:
        await asyncio.to_thread(shutil.rmtree, temporary_dir)
    return size


async def unpack(runtime: SessionRuntime, archive: UploadFile, path: str) -> None:
    """Unpack a zip into the directory `path`, whatever the zip's name."""
    target = _absolute(path)
    temporary_dir = await asyncio.to_thread(tempfile.mkdtemp, prefix="bascule-")
    try:
        copy = Path(temporary_dir, "upload.zip")
        await asyncio.to_thread(_copy, archive, copy)
        await runtime.unpack(copy, str(target))
    finally:
        await asyncio.to_thread(shutil.rmtree, temporary_dir)


async def download(runtime: SessionRuntime, path: str) -> Response:
    """Stream the file to the client. The hub does not store the file, so the size of the file does
    not matter."""
    source = _absolute(path)
    async with AsyncExitStack() as stack:
        found = await stack.enter_async_context(
            (await runtime.sandbox_client()).download(str(source))
        )
        if found.is_zip:
            raise IsADirectory(f"It is a directory: {path}")
        held = stack.pop_all()
    name = quote(source.name)
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    if found.size is not None:
        headers["Content-Length"] = str(found.size)
    return OwningStream(found.chunks, held, media_type="application/octet-stream", headers=headers)


def _absolute(path: str) -> PurePosixPath:
    absolute = PurePosixPath(path)
    if not absolute.is_absolute() or absolute.name in ("", ".."):
        raise InvalidPath(f"The path must be absolute and name a file: {path!r}")
    if "\0" in path or len(os.fsencode(absolute.name)) > _MAX_NAME_BYTES:
        raise InvalidPath(f"The file name is too long: {absolute.name[:50]!r}…")
    return absolute


def _copy(file: UploadFile, to: Path) -> int:
    with to.open("wb") as target:
        shutil.copyfileobj(file.file, target)
        return target.tell()
