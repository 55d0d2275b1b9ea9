"""The interface of a plugin that adds endpoints to an action server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from bascule.sandbox.executor import Sandbox


class ServerPlugin(Protocol):
    """Adds endpoints to an action server, and runs the services behind them."""

    def open(
        self, sandbox: Sandbox, last_action: Callable[[], float | None]
    ) -> Sequence[BaseRoute]:
        """Return the plugin's endpoints. The server calls this once, in a thread.

        `last_action` returns the Unix time of the last action.
        """
        ...

    def acted(self) -> None:
        """Called when an action begins and when it ends."""
        ...

    async def start(self) -> None: ...

    def finish_streams(self) -> None:
        """End all open streaming responses, because the server is stopping."""
        ...

    async def aclose(self) -> None:
        """Called after the last request and before the sandbox is closed."""
        ...
