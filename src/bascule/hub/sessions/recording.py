"""Copies the timelines of sandboxes into the records of their sessions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

from bascule.core.errors import BasculeError, MessageTooLarge, StorageFailed
from bascule.core.sessions import SessionId
from bascule.hub.records.record import Record
from bascule.hub.records.records import Records

from .sandbox_client import SandboxClient
from .sandbox_messages import SandboxEntry, TimelineBegin
from .tasks import Tasks

logger = logging.getLogger(__name__)

_FINISH_TIMEOUT: Final = 5.0
"""Seconds to read the remaining entries of an ended sandbox."""

MakeClient = Callable[[], SandboxClient]


class Recordings:
    """One recording for each running sandbox, from its start to its last entry.

    A sandbox numbers its timeline entries and keeps the newest ones. A recording continues after
    the last entry in the record, even after the hub was restarted or killed. So no entry is
    recorded twice.
    """

    def __init__(self, records: Records) -> None:
        self.records = records
        self._tasks = Tasks()

    def start(self, session_id: SessionId, make_client: MakeClient) -> None:
        """Start recording through a separate client: the client for actions is closed earlier."""
        if session_id not in self._tasks:
            self._tasks.start(session_id, self._record(session_id, make_client))

    async def finish(self, session_id: SessionId) -> None:
        """The sandbox has ended: read the remaining entries and stop."""
        try:
            async with asyncio.timeout(_FINISH_TIMEOUT):
                await self._tasks.until_finished(session_id)
        except TimeoutError:
            await self._tasks.cancel(session_id)

    async def aclose(self) -> None:
        await self._tasks.aclose()

    async def _record(self, session_id: SessionId, make_client: MakeClient) -> None:
        record = await self.records.of_session(session_id)
        async with make_client() as client:
            try:
                while await _record_stream(record, client):
                    pass
            except StorageFailed as error:
                record.rewind()  # the reconciler restarts the recording after the last stored entry
                logger.warning("session %s: %s", session_id, error.message)
            except BasculeError as error:
                logger.debug("session %s sends no more events: %s", session_id, error.message)


async def _record_stream(record: Record, client: SandboxClient) -> bool:
    """Record entries until the stream ends. True if the stream must be opened again: watchers came
    or left, or an entry was too large and was skipped."""
    try:
        return await _record_until_change(record, client)
    except MessageTooLarge as error:
        logger.warning("an event is missing in a record: %s", error.message)
        return True


async def _record_until_change(record: Record, client: SandboxClient) -> bool:
    """Record entries until the stream ends.

    True if the first watcher came or the last one left. Then the stream must be opened again,
    because the sandbox sends the output of running commands only on request.
    """
    is_watched = record.is_watched
    recording = asyncio.create_task(_record_entries(record, client, output=is_watched))
    watchers_change = asyncio.create_task(record.wait_while(is_watched=is_watched))
    try:
        await asyncio.wait({recording, watchers_change}, return_when=asyncio.FIRST_COMPLETED)
        if recording.done():
            recording.result()
            return False
        return True
    finally:
        for task in (recording, watchers_change):
            task.cancel()
        await asyncio.gather(recording, watchers_change, return_exceptions=True)


async def _record_entries(record: Record, client: SandboxClient, *, output: bool) -> None:
    # The epoch changes when the sandbox restarts and numbers its entries from 1 again.
    epoch, last = record.position
    async with aclosing(client.timeline(after=last, epoch=epoch, output=output)) as timeline:
        try:
            async for begin, entries in timeline:
                if begin.epoch != epoch:
                    epoch, last = begin.epoch, 0
                for entry in entries:
                    last = _add_entry(record, entry, begin, last)
                if record.has_failed or record.has_many_pending:
                    await record.flush()
        except MessageTooLarge:
            record.skip((epoch, last + 1))
            raise


def _add_entry(record: Record, entry: SandboxEntry, begin: TimelineBegin, last: int) -> int:
    """Add an entry to the record, or show output to watchers. Returns the newest entry's number."""
    contents = entry.contents()
    if entry.n == 0:  # output of a running command, which is not recorded
        record.show(entry.kind, contents)
        return last
    if entry.n > last + 1:  # the sandbox has dropped older entries that the hub did not read
        contents["missed"] = entry.n - last - 1
    if entry.kind == "action":
        contents["working_dir"] = begin.working_dir
    record.note(entry.kind, contents, position=(begin.epoch, entry.n), time=entry.time)
    return entry.n
