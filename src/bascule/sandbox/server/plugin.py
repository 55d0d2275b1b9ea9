"""Extra endpoints that a sandbox's server can be given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from starlette.routing import BaseRoute

from bascule.sandbox.executor import Sandbox


class ServerPlugin(Protocol):
    """Endpoints besides those of every sandbox server, and the services behind them."""

    def open(
        self, sandbox: Sandbox, last_action: Callable[[], float | None]
    ) -> Sequence[BaseRoute]:
        """Return its endpoints. Called once, in a thread; `last_action` returns Unix time."""
        ...

    def acted(self) -> None:
        """Called when an action begins and when it ends."""
        ...

    async def start(self) -> None: ...

    def finish_streams(self) -> None:
        """End responses that stream without end, because the server is stopping."""
        ...

    async def aclose(self) -> None:
        """Called after the last request and before the sandbox is closed."""
        ...
