"""The client with which a net or a script talks to a VS Code window.

`vscode_bridge` is the API for scripts. A program with its own connection to a window creates a
`BridgeClient` over a `Transport`.
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
