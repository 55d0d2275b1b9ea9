"""What agents did in windows, as it passed through the hub."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Mapping
from typing import Any, Final

from bascule.core.timeline import Timeline
from bascule.core.windows import WindowId
from bascule.wire.timeline import brief, size_of

_MOST: Final = 2_000
_MOST_BYTES: Final = 16 << 20
_UNDER_WAY: Final = 10_000


class WindowTimelines:
    """One for each window that is known. They end with the hub: windows keep their own."""

    def __init__(self) -> None:
        self._timelines: dict[WindowId, Timeline] = {}
        self._begun: dict[str, tuple[WindowId, float]] = {}

    def of(self, window_id: WindowId) -> Timeline:
        if window_id not in self._timelines:
            self._timelines[window_id] = Timeline(most=_MOST, most_bytes=_MOST_BYTES)
        return self._timelines[window_id]

    def is_watched(self, window_id: WindowId) -> bool:
        timeline = self._timelines.get(window_id)
        return timeline is not None and timeline.has_listeners

    def forget(self, window_id: WindowId) -> None:
        self._timelines.pop(window_id, None)

    def began(self, window_id: WindowId, event: Mapping[str, Any], who: str) -> None:
        """An action is handed over. Sent again under the same id it is the same one."""
        action_id = str(event["id"])
        if action_id in self._begun:
            return
        self._begun[action_id] = window_id, time.monotonic()
        while len(self._begun) > _UNDER_WAY:
            del self._begun[next(iter(self._begun))]
        shown = brief({key: value for key, value in event.items() if key != "progress"})
        self.of(window_id).note("action", {"event": shown, "who": who}, size=size_of(shown))

    def printed(self, window_id: WindowId, frame: Mapping[str, Any]) -> None:
        if not self.is_watched(window_id):
            return
        data = str(frame.get("data", ""))
        try:
            size = len(base64.b64decode(data, validate=True))
        except binascii.Error:
            return  # nobody can show it; its asker says what is wrong with it
        told = {"cause": frame.get("cause"), "data": data}
        self.of(window_id).show("output", told, size=size)

    def ended(self, window_id: WindowId, observation: Mapping[str, Any]) -> None:
        """An observation came; one that was noted before, or of nothing we know, is passed over."""
        cause = observation.get("cause")
        begun = self._begun.get(cause) if isinstance(cause, str) else None
        if begun is None or begun[0] != window_id:
            return
        del self._begun[str(cause)]
        shown = brief(observation)
        data = {"event": shown, "seconds": time.monotonic() - begun[1]}
        self.of(window_id).note("observation", data, size=size_of(shown))

    def lost(self, window_id: WindowId, why: str) -> None:
        """Nobody knows how those under way end, unless the window comes back to tell."""
        for cause, (where, since) in self._begun.items():
            if where == window_id:
                data = {"cause": cause, "seconds": time.monotonic() - since, "message": why}
                self.of(window_id).note("failed", data)
