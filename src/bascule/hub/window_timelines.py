"""Timelines of windows: the actions and observations that pass through the hub."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from bascule.core.sessions import SessionId
from bascule.core.windows import WindowId
from bascule.wire.timeline import whole

from .records.record import Record
from .records.records import Records
from .registry import Registry

_MAX_RUNNING: Final = 10_000
"""Maximum number of running actions whose observations are recorded."""
_MAX_NUMBER: Final = 1 << 53
"""Largest number of a checkpoint: the largest integer that JavaScript represents exactly."""
CHECKPOINT: Final = "checkpoint"
"""Field in which a window sends the number of an action's checkpoint. It is for the timeline, and
not part of the observation."""


class _RunningAction(NamedTuple):
    window_id: WindowId
    record: Record
    since: float
    """Monotonic time at which the action was sent."""


class WindowTimelines:
    """Records actions and observations of windows. The window of a session uses the record of the
    session; every other window has its own record."""

    def __init__(self, records: Records, registry: Registry) -> None:
        self._records = records
        self._registry = registry
        self._running: dict[str, _RunningAction] = {}

    async def of(self, window_id: WindowId) -> Record:
        """The record of a window. Raises `NoSuchWindow` if it is not registered."""
        session_id = self._registry.session_of(window_id)
        if session_id:
            return await self._records.of_session(SessionId(session_id))
        return await self._records.of_window(window_id, self._registry.owner(window_id))

    async def follow(
        self, window_id: WindowId, *, after: int, epoch: str
    ) -> AsyncGenerator[tuple[str, list[dict[str, Any]]], None]:
        """Entries of the window's timeline, as `Record.follow` returns them."""
        record = await self.of(window_id)
        async with aclosing(record.follow(after=after, epoch=epoch)) as timeline:
            async for each in timeline:
                yield each

    def record_action(
        self, record: Record, window_id: WindowId, event: Mapping[str, Any], who: str
    ) -> None:
        """Record an action that is sent to a window. A repeated id is ignored."""
        action_id = str(event["id"])
        if action_id in self._running:
            return
        self._running[action_id] = _RunningAction(window_id, record, time.monotonic())
        while len(self._running) > _MAX_RUNNING:
            del self._running[next(iter(self._running))]
        action = whole({key: value for key, value in event.items() if key != "progress"})
        record.note("action", {"event": action, "who": who})

    def show_output(self, window_id: WindowId, frame: Mapping[str, Any]) -> None:
        """Send output of a running action to watchers. Output is not recorded."""
        cause, data = frame.get("cause"), str(frame.get("data", ""))
        running = self._running.get(cause) if isinstance(cause, str) else None
        if running is None or running.window_id != window_id or not running.record.is_watched:
            return
        try:
            base64.b64decode(data, validate=True)
        except binascii.Error:
            return  # invalid output cannot be shown; the caller reports the error
        running.record.show("output", {"cause": cause, "data": data})

    def record_observation(self, window_id: WindowId, observation: Mapping[str, Any]) -> None:
        """Record an observation, with the number of its checkpoint (`CHECKPOINT`). Repeated
        observations and those of unknown actions are ignored."""
        cause = observation.get("cause")
        running = self._running.get(cause) if isinstance(cause, str) else None
        if running is None or running.window_id != window_id:
            return
        del self._running[str(cause)]
        seconds = time.monotonic() - running.since
        entry: dict[str, Any] = {
            "event": whole(without_checkpoint(observation)),
            "seconds": seconds,
        }
        number = observation.get(CHECKPOINT)
        if isinstance(number, int) and 1 <= number <= _MAX_NUMBER and number is not True:
            entry[CHECKPOINT] = number
        running.record.note("observation", entry)

    def record_failures(self, window_id: WindowId, message: str) -> None:
        """Record that the running actions of the window failed. A window that reconnects may still
        send their observations."""
        for cause, running in self._running.items():
            if running.window_id == window_id:
                seconds = time.monotonic() - running.since
                running.record.note(
                    "failed", {"cause": cause, "seconds": seconds, "message": message}
                )


def without_checkpoint(observation: Mapping[str, Any]) -> Mapping[str, Any]:
    """The observation as agents get it."""
    if CHECKPOINT not in observation:
        return observation
    return {name: value for name, value in observation.items() if name != CHECKPOINT}
