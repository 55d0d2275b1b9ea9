"""Uploaded archives that become workspaces of sessions."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
import time
from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path
from typing import Final

from bascule.core.errors import InvalidRequest, MessageTooLarge, QuotaExceeded

_NAME: Final = re.compile(r"[0-9a-f]{48}")
_MAX_UNUSED: Final = 8
"""Maximum number of unused archives of one owner."""
_PIECE_BYTES: Final = 1 << 20


class UploadedArchives:
    """Files that only the hub can read, kept until a session uses them or their lifetime ends.

    The name of an archive contains a hash of its owner: nobody else can use it for a session.
    """

    def __init__(self, directory: Path, *, max_bytes: int, lifetime: float) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._lifetime = lifetime

    async def add(self, owner: str, body: AsyncIterable[bytes]) -> str:
        """Store an upload and return its id. An interrupted or too large upload leaves no file."""
        name = _owner_prefix(owner) + secrets.token_hex(16)
        path = self._directory / name
        unused = await asyncio.to_thread(
            lambda: len([*self._directory.glob(f"{_owner_prefix(owner)}*")])
        )
        if unused >= _MAX_UNUSED:
            raise QuotaExceeded(
                f"{owner} has {unused} unused archives; create a session from one, or wait "
                "until they expire (the setting `archive_lifetime`)",
                limit=_MAX_UNUSED,
                size=unused,
                setting="archive_lifetime",
            )
        descriptor = await asyncio.to_thread(
            os.open, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600
        )
        size = 0
        try:
            async for piece in body:
                size += len(piece)
                if size > self._max_bytes:
                    raise MessageTooLarge(
                        f"The archive is larger than {self._max_bytes} bytes; the setting "
                        "`max_archive` allows more"
                    )
                await asyncio.to_thread(_write, descriptor, piece)
        except BaseException:
            await asyncio.shield(asyncio.to_thread(path.unlink))
            raise
        finally:
            await asyncio.shield(asyncio.to_thread(os.close, descriptor))
        return name

    async def ensure_exists(self, owner: str, name: str) -> None:
        """Raise `InvalidRequest` unless the archive exists and belongs to `owner`."""
        belongs_to_owner = _NAME.fullmatch(name) and name.startswith(_owner_prefix(owner))
        if not belongs_to_owner or not await asyncio.to_thread(self._path(name).is_file):
            raise InvalidRequest(f"There is no archive {name!r}; it may have expired")

    async def read(self, name: str) -> AsyncIterator[bytes]:
        file = await asyncio.to_thread(self._path(name).open, "rb")
        try:
            while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
                yield piece
        finally:
            file.close()

    async def remove(self, name: str) -> None:
        await asyncio.to_thread(self._path(name).unlink, missing_ok=True)

    def sweep(self, in_use: set[str]) -> None:
        """Delete archives that no session used in time. This method blocks."""
        oldest_allowed = time.time() - self._lifetime
        for each in self._directory.iterdir():
            if each.name not in in_use and each.stat().st_mtime < oldest_allowed:
                each.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._directory / name


def _owner_prefix(owner: str) -> str:
    return hashlib.sha256(owner.encode()).hexdigest()[:16]


def _write(descriptor: int, piece: bytes) -> None:
    view = memoryview(piece)
    while view:
        view = view[os.write(descriptor, view) :]
