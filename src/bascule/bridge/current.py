"""Chooses the bridge of this process.

The first of these that exists is used: the bridge set with `use`; the bridge of the debug session;
a bridge to the window that started this program (a run), which passed its address in environment
variables; a bridge to the hub; a bridge that asks in the terminal; a bridge without a window.
`BASCULE_BRIDGE` can change the choice.

This is one of the few modules that read the environment. When it reads the variables of a run, it
also removes them, so that programs which the script starts do not inherit its window. `child_env`
returns the variables for programs that need them.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Final

from bascule.core.errors import InvalidSetting

from .client import BridgeClient
from .null import NullTransport
from .run import Endpoint, RunTransport
from .terminal import TerminalTransport
from .transport import Transport

if TYPE_CHECKING:
    from bascule.core.contracts import Bridge

_RUN_PREFIXES: Final = ("EVOLVE_RUN_BRIDGE_", "RUN_BRIDGE_")
"""Prefixes of the variables ADDR, TOKEN and SESSION; the first prefix that is set is used."""
KIND: Final = "BASCULE_BRIDGE"
"""Environment variable that chooses a bridge. `terminal`: ask in the terminal if there is no
window. `none`: no bridge. Empty: automatic."""


class CurrentBridge:
    """The bridge of a process, used by every call of `vscode_bridge`."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self._environ = environ
        self._lock = threading.Lock()
        self._explicit: Bridge | None = None
        self._debug: Bridge | None = None
        self._automatic: Bridge | None = None
        self._endpoint: Endpoint | None = None
        self._uses_terminal = False
        self._pid = os.getpid()

    def bridge(self) -> Bridge:
        with self._lock:
            if self._explicit is not None:
                return self._explicit
            if self._debug is not None:
                return self._debug
            if self._automatic is None or self._pid != os.getpid():
                # A forked child has none of its parent's threads, so it gets its own bridge.
                self._pid = os.getpid()
                client = BridgeClient(self._choose_transport())
                atexit.register(client.close)
                self._automatic = client
            return self._automatic

    def use(self, bridge: Bridge | None) -> None:
        """Use this bridge from now on. None: choose a bridge by the environment."""
        with self._lock:
            self._explicit = bridge

    def use_debug(self, bridge: Bridge | None) -> None:
        """Use the bridge of the debug session, unless the script has set a bridge with `use`."""
        with self._lock:
            self._debug = bridge

    def use_terminal(self) -> None:
        """Ask in the terminal if there is no window."""
        with self._lock:
            self._uses_terminal = True
            if self._automatic is not None and self._automatic.kind == "none":
                self._automatic = None

    def child_env(self) -> dict[str, str]:
        """Environment variables with which a child process reaches the same window."""
        with self._lock:
            self._read_endpoint()
            if self._endpoint is None:
                return {}
            values = (self._endpoint.address, self._endpoint.token, self._endpoint.session)
            return dict(zip(_names(_RUN_PREFIXES[0]), values, strict=True))

    def _choose_transport(self) -> Transport:
        wanted = self._environ.get(KIND, "")
        if wanted not in ("", "none", "terminal"):
            raise InvalidSetting(
                f"{KIND} must be 'terminal', 'none' or empty, but it is {wanted!r}"
            )
        self._read_endpoint()
        if wanted == "none":
            return NullTransport()
        if self._endpoint is not None:
            return RunTransport(self._endpoint)
        if (hub := self._environ.get("BASCULE_HUB")) and (
            token := self._environ.get("BASCULE_TOKEN")
        ):
            from .hub import HubTransport  # imported here: it loads the hub's client

            return HubTransport(hub, token, window=self._environ.get("BASCULE_WINDOW", ""))
        if wanted == "terminal" or self._uses_terminal:
            return TerminalTransport()
        return NullTransport()

    def _read_endpoint(self) -> None:
        for prefix in _RUN_PREFIXES:
            names = _names(prefix)
            address, token, session = (self._environ.get(name, "") for name in names)
            if address and token and self._endpoint is None:
                self._endpoint = Endpoint(address, token, session)
            for name in names:
                self._environ.pop(name, None)


def _names(prefix: str) -> tuple[str, str, str]:
    return (f"{prefix}ADDR", f"{prefix}TOKEN", f"{prefix}SESSION")


current_bridge: Final = CurrentBridge(os.environ)
"""The bridge of this process."""
