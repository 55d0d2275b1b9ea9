"""Debug transport: requests leave as DAP events and replies arrive as DAP requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bascule.core.errors import BridgeClosed
from bascule.wire.bridge import Message, encode, from_dap, to_dap

from .transport import TransportReceiver


class DapTransport:
    """Transport through a debug adapter. The adapter provides `send` and calls `receive` and `end`.

    `send` gets the body of a `customRequest` event and may be called from any thread. `receive`
    takes the arguments of a `customRequestResponse` request, and raises `BridgeProtocol` if the
    arguments are invalid. `end` reports the end of the debug session.
    """

    kind = "debug"

    def __init__(self, send: Callable[[Mapping[str, Any]], None]) -> None:
        self._send = send
        self._receiver: TransportReceiver | None = None
        self._is_over = False

    def start(self, receiver: TransportReceiver) -> None:
        self._receiver = receiver
        if self._is_over:
            receiver.ended(_session_over())
        else:
            receiver.connected(is_same_peer=False)

    def send(self, message: Message) -> None:
        encode(message)  # only a check: raises here, not in the adapter, if it cannot be sent
        self._send(to_dap(message))

    def receive(self, arguments: Mapping[str, Any]) -> None:
        message = from_dap(arguments)
        if self._receiver is not None:
            self._receiver.received(message)

    def end(self) -> None:
        self._is_over = True
        if self._receiver is not None:
            self._receiver.ended(_session_over())

    def close(self) -> None:
        self._is_over = True


def _session_over() -> BridgeClosed:
    return BridgeClosed("The debug session is over")
