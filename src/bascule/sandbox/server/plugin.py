"""What else a sandbox's server may answer, for those who have more beside it than a sandbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from starlette.routing import BaseRoute

from bascule.sandbox.executor import Sandbox


class Annex(Protocol):
    """Endpoints beside those of every sandbox, and what lives behind them."""

    def open(
        self, sandbox: Sandbox, last_action: Callable[[], float | None]
    ) -> Sequence[BaseRoute]:
        """Its endpoints. Called once, in a thread; `last_action` is in seconds since 1970."""
        ...

    def acted(self) -> None:
        """An action begins or has ended."""
        ...

    async def start(self) -> None: ...

    def finish_streams(self) -> None:
        """End the answers that would go on for ever; the server stops."""
        ...

    async def aclose(self) -> None:
        """After the last request, before the sandbox ends."""
        ...
