"""Notifies listeners in this process when something in the hub changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

Topic = Literal["session", "windows", "approvals", "review", "demo"]
OnChange = Callable[[Topic, str], None]
"""Called with the topic and the subject: the session's id for `session`, the window's id for
`review`, the owner for `demo`, empty for other topics."""


class HubChanges:
    """Calls listeners synchronously at each change. Listeners read the new state themselves."""

    def __init__(self) -> None:
        self._listeners: list[OnChange] = []

    def publish(self, topic: Topic, subject: str = "") -> None:
        for listener in tuple(self._listeners):
            listener(topic, subject)

    def subscribe(self, listener: OnChange) -> Callable[[], None]:
        """Call `listener` on every change, until the returned function is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)
