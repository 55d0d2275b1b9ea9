"""Exports a record as an OpenHands trajectory, streamed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Literal

from bascule.wire import to_json
from bascule.wire.trajectory import Trajectory

from .record import Record

Form = Literal["jsonl", "json"]
"""jsonl: one event per line. json: one list, as in OpenHands' own download."""


async def export_record(record: Record, form: Form) -> AsyncGenerator[bytes, None]:
    """Stream the record's present entries, oldest first, with one batch in memory at a time."""
    trajectory, is_first = Trajectory(), True
    if form == "json":
        yield b"["
    async with aclosing(record.entries()) as entries:
        async for batch in entries:
            events = await asyncio.to_thread(_events, trajectory, batch)
            if not events:
                continue
            if form == "jsonl":
                yield b"".join(event + b"\n" for event in events)
            else:
                yield (b"\n" if is_first else b",\n") + b",\n".join(events)
            is_first = False
    if form == "json":
        yield b"]\n" if is_first else b"\n]\n"


def _events(trajectory: Trajectory, entries: Sequence[dict[str, Any]]) -> list[bytes]:
    exported_events = (trajectory.event(entry) for entry in entries)
    return [to_json(event) for event in exported_events if event is not None]
