"""What the net case asks of a library of Petri nets."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from benchmarks.peers.net_shapes import Shape, per_second, philosophers, ring


class NetSubject(ABC):
    """Answers the harness; a library says how it explores and how it fires."""

    package: str

    async def start(self) -> None:  # noqa: B027
        """There is nothing to start."""

    async def stop(self) -> None:  # noqa: B027
        """Nor to stop."""

    async def hello(self) -> dict[str, Any]:
        versions = {self.package: version(self.package)}
        return {"pid": os.getpid(), "versions": versions, "server_pid": None}

    async def explore(self, n: int, seconds: float) -> dict[str, Any]:
        walk = self.explorer(philosophers(n))
        states, edges = walk()
        return {
            "states": states,
            "edges": edges,
            "states_per_second": per_second(lambda: walk()[0], seconds),
        }

    async def fire(self, places: int, tokens: int, count: int, seconds: float) -> dict[str, Any]:
        work = self.player(ring(places, tokens), count)
        return {"firings_per_second": per_second(work, seconds)}

    @abstractmethod
    def explorer(self, shape: Shape) -> Callable[[], tuple[int, int]]:
        """Builds the net; what is returned finds all its states and says how many, and edges."""

    @abstractmethod
    def player(self, shape: Shape, count: int) -> Callable[[], int]:
        """Builds the net; what is returned fires `count` enabled transitions by lot."""
