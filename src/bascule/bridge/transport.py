"""The contract of transports, which carry messages between a bridge and a window."""

from __future__ import annotations

from typing import Protocol

from bascule.core.errors import BridgeError
from bascule.wire.bridge import Message


class TransportReceiver(Protocol):
    """Callbacks of a transport; called from the transport's threads, one at a time."""

    def connected(self, *, is_same_peer: bool) -> None:
        """Messages can be sent. `is_same_peer`: the peer is the same as before the connection was
        lost. Such a peer remembers earlier requests and executes none twice."""

    def received(self, message: Message) -> None: ...

    def lost(self) -> None:
        """The connection broke; `connected` or `ended` follows."""

    def ended(self, error: BridgeError) -> None:
        """There is no connection, and the transport has stopped trying to connect. The caller may
        start the transport again."""


class Transport(Protocol):
    """A connection to a window. `start` returns at once; results go to the receiver."""

    @property
    def kind(self) -> str: ...

    def start(self, receiver: TransportReceiver) -> None: ...

    def send(self, message: Message) -> None:
        """Allowed only between `connected` and `lost`. If a message gets lost, `send` raises
        nothing, and the transport calls `lost`.

        Raises `InvalidParams` or `BridgeTooLarge` for a message that can never be sent.
        """

    def close(self) -> None:
        """Stop the transport. The receiver gets no calls after `close` returns, unless the receiver
        itself called `close`."""
