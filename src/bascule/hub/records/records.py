"""The records of a hub: one for each session, and one for each window outside sessions."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final
from uuid import UUID

from bascule.core.contracts import Closable
from bascule.core.errors import NoSuchWindow, StorageFailed
from bascule.core.sessions import SessionId
from bascule.core.windows import WindowId
from bascule.hub.sessions.masking import Mask
from bascule.hub.settings import HubSettings

from .record import Record
from .segments import Segments

logger = logging.getLogger(__name__)

_DAY: Final = 86400.0
_OWNER: Final = "owner"
_MEASURE_INTERVAL: Final = 60.0
"""Seconds between two measurements of the disk space."""

MaskOf = Callable[[SessionId], Mask]


class Records(Closable):
    """Stores records in files below `timelines/` in the hub's `state_dir`, which only the hub can
    read. Without a `state_dir`, keeps the newest entries in memory.

    The record of a session is removed with the session. The record of a window is removed once
    the window is no longer registered and all entries are older than `timeline_days`.
    """

    def __init__(self, settings: HubSettings, *, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        state = settings.state_dir
        self._directory = None if state is None else state / "timelines"
        self._open: dict[Path | str, asyncio.Task[Record]] = {}
        """Open records, by the result of `_path_or_name`."""
        self._bytes, self._measure_at = 0, 0.0
        self.mask_of: MaskOf = lambda _: Mask(())
        """Returns the mask for a session's secrets."""

    async def aclose(self) -> None:
        for record in await self._open_records():
            await record.aclose()
        self._open.clear()

    async def of_session(self, session_id: SessionId) -> Record:
        return await self._get(self._path_or_name("sessions", session_id), session_id=session_id)

    async def of_window(self, window_id: WindowId, owner: str) -> Record:
        """The record of a window. The owner is stored too, so that it is known after the window is
        gone."""
        return await self._get(self._path_or_name("windows", window_id), owner=owner)

    async def window_owner(self, window_id: WindowId) -> str:
        """The owner of a recorded window. Raises `NoSuchWindow`."""
        location = self._path_or_name("windows", window_id) if _is_uuid(window_id) else ""
        owner = await asyncio.to_thread(_owner, location) if isinstance(location, Path) else None
        if owner is None:
            raise NoSuchWindow(f"There is no record of a window {window_id!r}", window_id=window_id)
        return owner

    async def remove_session(self, session_id: SessionId) -> None:
        location = self._path_or_name("sessions", session_id)
        await (await self._get(location, session_id=session_id)).remove()
        self._open.pop(location, None)

    async def sweep(
        self, sessions: Collection[SessionId] | None, windows: Collection[WindowId]
    ) -> None:
        """Delete old entries, entries above the size limit, and records of removed sessions.

        `sessions`: all existing sessions; None: unknown, so no record of a session is deleted.
        `windows`: all registered windows; their records stay even if empty, so that numbering
        continues.
        """
        if self._directory is None:
            return
        before = self._clock() - self._settings.timeline_days * _DAY
        kinds = [("windows", set[str](windows))]
        if sessions is not None:
            kinds.append(("sessions", set[str](sessions)))
        for kind, known in kinds:
            for location in await asyncio.to_thread(_subdirectories, self._directory / kind):
                try:
                    await self._sweep_record(
                        kind, location, before, is_known=location.name in known
                    )
                except StorageFailed as error:
                    logger.warning("%s: %s", location, error.message)

    async def _sweep_record(
        self, kind: str, location: Path, before: float, *, is_known: bool
    ) -> None:
        session_id = SessionId(location.name) if kind == "sessions" else None
        record = await self._get(location, session_id=session_id)
        is_empty = await record.sweep(before=before)
        if not is_known and (is_empty or kind == "sessions"):
            await record.remove()
            self._open.pop(location, None)

    async def disk_bytes(self) -> int:
        """Bytes of all records on disk, measured at most once per minute."""
        if self._directory is not None and self._clock() >= self._measure_at:
            self._measure_at = self._clock() + _MEASURE_INTERVAL
            self._bytes = await asyncio.to_thread(_bytes_below, self._directory)
        return self._bytes

    # ----------------------------------------------------------------------------------------

    def _path_or_name(self, kind: str, name: str) -> Path | str:
        """The directory of a record; a name that identifies it if records are only in memory."""
        return f"{kind}/{name}" if self._directory is None else self._directory / kind / name

    async def _get(
        self, location: Path | str, *, session_id: SessionId | None = None, owner: str = ""
    ) -> Record:
        """The record, opened once even if several callers ask at the same time."""
        if location not in self._open:
            self._open[location] = asyncio.create_task(
                self._open_record(location, session_id, owner)
            )
        return await asyncio.shield(
            self._open[location]
        )  # other callers may wait for the same task

    async def _open_record(
        self, location: Path | str, session_id: SessionId | None, owner: str
    ) -> Record:
        """Open a record. If it cannot be stored, hold it in memory: actions must still work."""
        empty = Mask(())
        mask = partial(self._mask, session_id) if session_id else lambda: empty
        if not isinstance(location, Path):
            return Record(None, mask)
        record = Record(Segments(location, max_bytes=self._settings.timeline_bytes), mask)
        try:
            if owner:
                await asyncio.to_thread(_store_owner, location, owner)
            await record.open()
        except StorageFailed as error:
            logger.warning("%s: %s", location, error.message)
            return Record(None, mask)
        return record

    def _mask(self, session_id: SessionId) -> Mask:
        return self.mask_of(session_id)

    async def _open_records(self) -> list[Record]:
        found = await asyncio.gather(*self._open.values(), return_exceptions=True)
        return [each for each in found if isinstance(each, Record)]


def _subdirectories(directory: Path) -> list[Path]:
    return [each for each in directory.iterdir() if each.is_dir()] if directory.is_dir() else []


def _bytes_below(directory: Path) -> int:
    """Bytes of the files in the directories of all records."""
    total = 0
    for kind in ("windows", "sessions"):
        for each in _subdirectories(directory / kind):
            with suppress(FileNotFoundError):  # removed meanwhile
                total += sum(
                    entry.stat(follow_symlinks=False).st_size for entry in os.scandir(each)
                )
    return total


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def _store_owner(directory: Path, owner: str) -> None:
    """Store the owner once, before the first line of the record."""
    file = directory / _OWNER
    try:
        if not file.exists():
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            file.write_text(owner)
    except OSError as error:
        raise StorageFailed(f"A record cannot be created: {error.strerror or error}") from error


def _owner(directory: Path) -> str | None:
    try:
        return (directory / _OWNER).read_text()
    except FileNotFoundError:
        return None
