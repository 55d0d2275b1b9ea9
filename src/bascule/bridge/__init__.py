"""The client with which a net or a script talks to a VS Code window.

`vscode_bridge` is its face for scripts. A program that has a way to a window of its own makes a
`BridgeClient` over a transport.
"""

from .client import BridgeClient
from .dap import DapTransport
from .null import NullTransport
from .run import Endpoint, RunTransport
from .terminal import TerminalTransport
from .transport import Transport, TransportReceiver

__all__ = [
    "BridgeClient",
    "DapTransport",
    "Endpoint",
    "NullTransport",
    "RunTransport",
    "TerminalTransport",
    "Transport",
    "TransportReceiver",
]
