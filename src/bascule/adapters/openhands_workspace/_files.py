"""Whole files into a session and out of it. What is on the hub's disk meanwhile is removed."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path, PurePosixPath
from typing import Final

from starlette.background import BackgroundTask
from starlette.datastructures import UploadFile
from starlette.responses import FileResponse, Response

from bascule.core.contracts import Runtime
from bascule.core.errors import InvalidPath, IsADirectory

_LONGEST_NAME: Final = 255
"""Bytes."""


async def upload(runtime: Runtime, file: UploadFile, path: str) -> int:
    """Write it to `path`, whatever it was called; returns how many bytes it has."""
    where = _absolute(path)
    here = await asyncio.to_thread(tempfile.mkdtemp, prefix="bascule-")
    try:
        size = await asyncio.to_thread(_copied, file, Path(here, where.name))
        await runtime.upload(Path(here, where.name), str(where.parent))
    finally:
        await asyncio.to_thread(shutil.rmtree, here)
    return size


async def download(runtime: Runtime, path: str) -> Response:
    where = _absolute(path)
    here = await asyncio.to_thread(tempfile.mkdtemp, prefix="bascule-")
    removal = BackgroundTask(shutil.rmtree, here)
    try:
        found = await runtime.download(str(where), Path(here))
        if found.name != where.name:  # a directory comes as a zip
            raise IsADirectory(f"It is a directory: {path}")
    except BaseException:
        await removal()
        raise
    return FileResponse(
        found, filename=where.name, media_type="application/octet-stream", background=removal
    )


def _absolute(path: str) -> PurePosixPath:
    where = PurePosixPath(path)
    if not where.is_absolute() or where.name in ("", ".."):
        raise InvalidPath(f"The path has to be absolute, and of a file: {path!r}")
    if "\0" in path or len(os.fsencode(where.name)) > _LONGEST_NAME:
        raise InvalidPath(f"No file can be called so: {where.name[:50]!r}…")
    return where


def _copied(file: UploadFile, to: Path) -> int:
    with to.open("wb") as target:
        shutil.copyfileobj(file.file, target)
        return target.tell()
