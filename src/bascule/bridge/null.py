"""The transport of a process that has no window."""

from __future__ import annotations

from typing import Final

from bascule.core.errors import BridgeUnavailable
from bascule.wire.bridge import Message

from .transport import TransportReceiver

WHAT_TO_DO: Final = (
    "No VS Code window to talk to. In VS Code, start the script in a terminal of the command "
    "'Bascule: Open Bridged Terminal', or a net by 'evolve.runNet'. Elsewhere, set BASCULE_HUB and "
    "BASCULE_TOKEN to reach a window through a hub, or BASCULE_BRIDGE=terminal to be asked in the "
    "terminal instead"
)


class NullTransport:
    """Ends with an error as soon as it is started. The error says how to get a window."""

    kind = "none"

    def __init__(self, why: str = WHAT_TO_DO) -> None:
        self._why = why

    def start(self, receiver: TransportReceiver) -> None:
        receiver.ended(BridgeUnavailable(self._why))

    def send(self, message: Message) -> None: ...

    def close(self) -> None: ...
