"""What has changed at the hub, told within this process to whoever shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

Topic = Literal["session", "windows", "approvals", "demo"]
OnChange = Callable[[Topic, str], None]
"""Told what changed, and for a session which one, for a demo whose."""


class HubChanges:
    """Tells at once and never waits; how things stand now is asked where they are kept."""

    def __init__(self) -> None:
        self._listeners: list[OnChange] = []

    def tell(self, topic: Topic, which: str = "") -> None:
        for listener in tuple(self._listeners):
            listener(topic, which)

    def subscribe(self, listener: OnChange) -> Callable[[], None]:
        """Have it called from now on, until the returned function is."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)
