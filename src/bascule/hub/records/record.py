"""The record of one session or window: written to disk and streamed to watchers."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from bascule.core.errors import BasculeError, InvalidAction, StorageFailed
from bascule.core.timeline import Timeline, TimelineEntry
from bascule.core.timeline_reader import TimelineReader
from bascule.hub.sessions.masking import Mask
from bascule.wire import from_json, to_json
from bascule.wire.timeline import brief, encode_entry

from .segments import RecordLine, Segments

logger = logging.getLogger(__name__)

_MAX_PAST_ENTRIES: Final = 5_000
_MAX_PAST_BYTES: Final = 32 << 20
"""Maximum number and bytes of past entries that a new follower gets."""
_MAX_HELD_ENTRIES: Final = 2_000
_MAX_HELD_BYTES: Final = 16 << 20
"""The same limits for a record that is kept only in memory."""
_MAX_PENDING_BYTES: Final = 64 << 20
"""Maximum bytes of pending entries; further entries are not written."""
_BATCH_DELAY: Final = 0.05
"""Seconds to collect entries before a write, unless many are pending or `flush` was called."""
_MAX_BATCH_LINES: Final = 200
_MAX_BATCH_BYTES: Final = 1 << 20
"""Maximum lines and bytes in one read. A write starts at once above this many bytes."""

Position = tuple[str, int]
"""A position in a sandbox's timeline: the epoch, and the number of the entry.

A sandbox that restarts chooses a new epoch and numbers its entries from 1 again."""


@dataclass(frozen=True, slots=True)
class _PendingEntry:
    """An entry that is not written yet."""

    entry: TimelineEntry
    body: bytes
    """The entry's data, as JSON."""
    position: Position


class Record:
    """The record of one session or window. Call `open` before use.

    `note` never waits: a thread writes pending entries, and `flush` waits until they are written.
    Entries that cannot be written are dropped; the next written line has their number.
    """

    def __init__(self, segments: Segments | None, mask: Callable[[], Mask]) -> None:
        self._segments = segments
        self._mask = mask
        self._timeline = Timeline(max_entries=_MAX_HELD_ENTRIES, max_bytes=_MAX_HELD_BYTES)
        self._pending: list[_PendingEntry] = []
        self._pending_bytes = 0
        self._writing: asyncio.Task[None] | None = None
        self._write_now = asyncio.Event()
        self._disk_lock = asyncio.Lock()
        """Held while a thread changes files, so that only one thread does."""
        self._unwritten = 0
        """Number of entries dropped since the last written line."""
        self._failure: StorageFailed | None = None
        self._readers: set[TimelineReader] = set()
        self._watchers_changed = asyncio.Event()
        self._advanced = asyncio.Event()
        self._is_closed = False
        self.position: Position = ("", 0)
        """Position of the newest entry in the sandbox's timeline."""
        self.written: Position = ("", 0)
        """Position of the newest entry on disk in the sandbox's timeline."""

    async def open(self) -> None:
        """Find the entries of earlier processes. Raises `StorageFailed`."""
        if self._segments is None:
            return
        try:
            newest = await asyncio.to_thread(self._segments.open)
        except OSError as error:
            raise StorageFailed(f"A record cannot be read: {error.strerror or error}") from error
        epoch, last = self._segments.epoch, self._segments.last
        # Nothing is kept in memory: past entries are read from disk.
        self._timeline = Timeline(max_entries=0, epoch=epoch, last=last)
        if newest is not None and isinstance(newest.get("from"), list):
            sandbox_epoch, number = newest["from"]
            self.position = self.written = (str(sandbox_epoch), int(number))

    async def aclose(self) -> None:
        """Write pending entries and end all followers."""
        self.finish()
        try:
            await self.flush()
        except StorageFailed as error:
            logger.warning("%s", error.message)

    def finish(self) -> None:
        """End all followers."""
        self._is_closed = True
        for reader in tuple(self._readers):
            reader.finish()

    @property
    def is_watched(self) -> bool:
        """Whether anybody follows the record now."""
        return self._timeline.is_watched

    async def wait_while(self, *, is_watched: bool) -> None:
        """Wait as long as the property `is_watched` has the value of the argument."""
        while self.is_watched == is_watched:
            self._watchers_changed.clear()
            await self._watchers_changed.wait()

    async def until_recorded(self, epoch: str, number: int) -> None:
        """Wait until the record has the sandbox's entry with this epoch and number."""
        while True:
            newest_epoch, newest_number = self.position
            if newest_epoch == epoch and newest_number >= number:
                return
            self._advanced.clear()
            await self._advanced.wait()

    # Writing --------------------------------------------------------------------------------

    def note(
        self,
        kind: str,
        data: Mapping[str, Any],
        *,
        position: Position | None = None,
        time: float | None = None,
    ) -> None:
        """Add an entry.

        Secrets are masked, and the entry is then marked with `masked`. An entry that JSON cannot
        express is dropped.
        """
        mask = self._mask()
        try:
            body = to_json(data)
            if mask.is_needed(body) and (masked := mask.value(data)) != data:
                data = {**masked, "masked": True}
                body = to_json(data)
        except InvalidAction as error:
            logger.warning("an action cannot be recorded: %s", error.message)
            self._unwritten += 1
            return
        entry = self._timeline.note(kind, data, size=len(body), time=time)
        if position is not None:
            self.position = position
            self._advanced.set()
        if self._segments is None:
            return
        if self._pending_bytes + entry.size > _MAX_PENDING_BYTES and self._pending:
            self._unwritten += 1
            return
        self._pending.append(_PendingEntry(entry, body, self.position))
        self._pending_bytes += entry.size
        if self._pending_bytes > _MAX_BATCH_BYTES:
            self._write_now.set()
        if self._writing is None:
            self._write_now.clear()
            self._writing = asyncio.create_task(self._write())

    def show(self, kind: str, data: Mapping[str, Any]) -> None:
        """Send a chunk of output to watchers without storing it. Each chunk is masked alone."""
        if not self.is_watched:
            return
        raw = b64decode(data["data"])
        text = self._mask().text(raw.decode(errors="surrogateescape"))
        masked = b64encode(text.encode(errors="surrogateescape")).decode()
        self._timeline.show(kind, {**data, "data": masked}, size=len(raw))

    async def flush(self) -> None:
        """Write pending entries. Raises `StorageFailed` if a write failed since the last call."""
        self._write_now.set()
        while self._writing is not None:
            await asyncio.shield(self._writing)  # cancelling `flush` must not cancel the write
        if (failure := self._failure) is not None:
            self._failure = None
            raise failure

    @property
    def has_failed(self) -> bool:
        """Whether a write has failed since the last `flush`."""
        return self._failure is not None

    @property
    def has_many_pending(self) -> bool:
        """Whether so many entries are pending that the sender should wait."""
        return self._pending_bytes > _MAX_PENDING_BYTES // 8

    def skip(self, position: Position) -> None:
        """Skip the sandbox's entries up to this position because they cannot be recorded."""
        self.position = position
        self._unwritten += 1
        self._advanced.set()

    def rewind(self) -> None:
        """Continue from `written`: the sandbox will resend the entries that were not written."""
        self.position = self.written
        self._unwritten = 0

    async def _write(self) -> None:
        """Write after a short delay, so that entries that arrive together are written together."""
        assert self._segments is not None
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_BATCH_DELAY):
                    await self._write_now.wait()
            while self._pending:
                batch, self._pending, self._pending_bytes = self._pending, [], 0
                missed, self._unwritten = self._unwritten, 0
                try:
                    async with self._disk_lock:
                        await asyncio.to_thread(_append, self._segments, batch, missed)
                except StorageFailed as error:
                    self._unwritten += len(batch) + missed
                    self._failure = error
                else:
                    self.written = batch[-1].position
        finally:
            self._writing = None

    # Reading --------------------------------------------------------------------------------

    async def follow(
        self, *, after: int = 0, epoch: str = ""
    ) -> AsyncGenerator[tuple[str, list[dict[str, Any]]], None]:
        """Batches of entries after number `after`, then of new entries, until the record is closed.

        Each batch comes with the record's epoch. If `epoch` differs from it, `after` is ignored.
        Long texts are shortened.
        """
        current_epoch = self._timeline.epoch
        after = after if epoch == current_epoch else 0
        yield current_epoch, []
        while not self._is_closed:
            with TimelineReader(self._timeline, after=after, epoch=current_epoch) as reader:
                self._readers.add(reader)
                self._watchers_changed.set()
                try:
                    async for entries in self._past_entries(after, self._timeline.last):
                        after = int(entries[-1]["n"])
                        yield current_epoch, entries
                    async for batch in reader.items():
                        if batch is not None:
                            after = max(after, batch[-1].number)
                            yield current_epoch, [_entry_json(entry) for entry in batch]
                finally:
                    reader.finish()
                    self._readers.discard(reader)
                    self._watchers_changed.set()

    async def _past_entries(
        self, after: int, last: int
    ) -> AsyncGenerator[list[dict[str, Any]], None]:
        """Entries on disk between `after` and `last`; only the newest of a long record."""
        if self._segments is None or last <= after:
            return
        await self._flush_or_log()
        after = max(after, last - _MAX_PAST_ENTRIES)
        lines = self._segments.read(after=after, max_bytes=_MAX_PAST_BYTES)
        while values := await asyncio.to_thread(_read_batch, lines, last, brief):
            yield values

    async def entries(self) -> AsyncGenerator[list[dict[str, Any]], None]:
        """All entries in full, oldest first, in batches."""
        last = self._timeline.last
        if self._segments is None:
            entries = self._timeline.after(0)
            for start in range(0, len(entries), _MAX_BATCH_LINES):
                yield [encode_entry(entry) for entry in entries[start : start + _MAX_BATCH_LINES]]
            return
        await self._flush_or_log()
        lines = self._segments.read()
        while values := await asyncio.to_thread(_read_batch, lines, last, lambda value: value):
            yield values

    async def _flush_or_log(self) -> None:
        """Write pending entries. A failure is only logged."""
        try:
            await self.flush()
        except StorageFailed as error:
            logger.warning("%s", error.message)

    # Retention ------------------------------------------------------------------------------

    async def sweep(self, *, before: float) -> bool:
        """Delete entries older than `before` or above the size limit; True if no entry is left."""
        if self._segments is None:
            return False
        await self._flush_or_log()
        async with self._disk_lock:
            return await asyncio.to_thread(_sweep_segments, self._segments, before)

    async def remove(self) -> None:
        self.finish()
        await self._flush_or_log()
        if self._segments is not None:
            async with self._disk_lock:
                await asyncio.to_thread(self._segments.remove)


def _append(segments: Segments, batch: Sequence[_PendingEntry], missed: int) -> None:
    """Write lines to disk, each with the sandbox's position to continue from. Runs in a thread."""
    lines = []
    for each in batch:
        entry = each.entry
        head: dict[str, Any] = {"n": entry.number, "kind": entry.kind, "time": entry.time}
        head["from"] = list(each.position)
        if missed:
            head["unwritten"], missed = missed, 0
        # Joins two JSON objects as bytes: `head` without its `}`, the body without its `{`.
        rest = b"," + each.body[1:] if len(each.body) > 2 else b"}"
        lines.append(RecordLine(entry.number, to_json(head)[:-1] + rest + b"\n", entry.time))
    segments.append(lines)


def _read_batch(
    lines: Iterator[tuple[int, bytes]], last: int, convert: Callable[[Any], Any]
) -> list[dict[str, Any]]:
    """The next batch of entries, each converted by `convert`. Skips invalid lines. Runs in a
    thread."""
    values: list[dict[str, Any]] = []
    size = 0
    for number, line in lines:
        if number > last:
            break
        size += len(line)
        try:
            value = from_json(line)
        except BasculeError:
            continue
        value.pop("from", None)
        if unwritten := value.pop("unwritten", 0):
            value["missed"] = value.get("missed", 0) + unwritten
        values.append(convert(value))
        if len(values) >= _MAX_BATCH_LINES or size >= _MAX_BATCH_BYTES:
            break
    return values


def _sweep_segments(segments: Segments, before: float) -> bool:
    try:
        segments.sweep(before=before)
        return segments.is_empty()
    except OSError as error:
        raise StorageFailed(f"A record cannot be swept: {error.strerror or error}") from error


def _entry_json(entry: TimelineEntry) -> dict[str, Any]:
    encoded = encode_entry(entry)
    if entry.kind == "output":
        return encoded
    shortened: dict[str, Any] = brief(encoded)
    return shortened
