"""Events of a session (ports, workspace, VS Code), sent to every subscriber."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bascule.core.broadcaster import Broadcaster, Subscription


@dataclass(frozen=True, slots=True)
class PublishedEvent:
    name: str
    data: Mapping[str, Any]


class SessionEvents:
    """Sends each event to everybody subscribed at that moment, and stores none.

    A subscriber that is too slow is disconnected. It reconnects and gets the current state first.
    """

    def __init__(self) -> None:
        self._broadcaster: Broadcaster[PublishedEvent] = Broadcaster()

    def publish(self, name: str, **data: Any) -> None:
        self._broadcaster.publish(PublishedEvent(name, data))

    def subscribe(self) -> Subscription[PublishedEvent]:
        return self._broadcaster.subscribe()

    def close(self) -> None:
        """End every subscription once its pending events are delivered."""
        self._broadcaster.close()
