"""The contract of transports, which carry messages between a bridge and a window."""

from __future__ import annotations

from typing import Protocol

from bascule.core.errors import BridgeError
from bascule.wire.bridge import Message


class TransportReceiver(Protocol):
    """Callbacks of a transport; called from the transport's threads, one at a time."""

    def connected(self, *, remembers: bool) -> None:
        """Messages can be sent. `remembers`: it is the peer of before, which knows what it was
        asked and does nothing twice."""

    def received(self, message: Message) -> None: ...

    def lost(self) -> None:
        """The connection broke; `connected` or `ended` follows."""

    def ended(self, error: BridgeError) -> None:
        """There is no connection, and the transport has stopped trying. It may be started again."""


class Transport(Protocol):
    """A connection to a window. `start` returns at once; results go to the receiver."""

    @property
    def kind(self) -> str: ...

    def start(self, receiver: TransportReceiver) -> None: ...

    def send(self, message: Message) -> None:
        """Allowed only between `connected` and `lost`. `lost` also reports lost messages.

        Raises `InvalidParams` and `BridgeTooLarge` for what cannot be sent at all.
        """

    def close(self) -> None:
        """Stop. The receiver gets no calls after this returns, unless it called this itself."""
