"""Debug transport: requests leave as DAP events and replies arrive as DAP requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bascule.core.errors import BridgeClosed
from bascule.wire.bridge import Message, encode, from_dap, to_dap

from .transport import TransportReceiver


class DapTransport:
    """Carried by a debug adapter, which hands in `send` and calls `receive` and `end`.

    `send` is given the body of a `customRequest` event and may be called from any thread;
    `receive` takes the arguments of a `customRequestResponse` request, and raises
    `BridgeProtocol` for what is none; `end` is for when the debug session is over.
    """

    kind = "debug"

    def __init__(self, send: Callable[[Mapping[str, Any]], None]) -> None:
        self._send = send
        self._receiver: TransportReceiver | None = None
        self._is_over = False

    def start(self, receiver: TransportReceiver) -> None:
        self._receiver = receiver
        if self._is_over:
            receiver.ended(_over())
        else:
            receiver.connected(remembers=False)

    def send(self, message: Message) -> None:
        encode(message)  # what is too large or no JSON fails here, and not in the adapter
        self._send(to_dap(message))

    def receive(self, arguments: Mapping[str, Any]) -> None:
        message = from_dap(arguments)
        if self._receiver is not None:
            self._receiver.received(message)

    def end(self) -> None:
        self._is_over = True
        if self._receiver is not None:
            self._receiver.ended(_over())

    def close(self) -> None:
        self._is_over = True


def _over() -> BridgeClosed:
    return BridgeClosed("The debug session is over")
