"""Ours: the packed form, and the runner that also does the work of code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bascule.net import Net, RandomChoice, RunLimits, Runner, explore, simulate
from bascule.testing.nets import build
from benchmarks.peers.net_shapes import Shape, ring
from benchmarks.peers.net_subject import NetSubject
from benchmarks.peers.serve import respond


class Bascule(NetSubject):
    package = "bascule"

    def explorer(self, shape: Shape) -> Callable[[], tuple[int, int]]:
        net = _net(shape)

        def walk() -> tuple[int, int]:
            found = explore(net)
            return found.states, found.edges

        return walk

    def player(self, shape: Shape, count: int) -> Callable[[], int]:
        net = _net(shape)
        return lambda: simulate(net, steps=count, seed=1).steps

    async def run(self, places: int, tokens: int, count: int, seconds: float) -> dict[str, Any]:
        """The same by the runner, which keeps every token's identity and tells every event."""
        from time import perf_counter

        net = _net(ring(places, tokens))
        done, began = 0, perf_counter()
        while (spent := perf_counter() - began) < seconds:
            result = await Runner(
                net, None, policy=RandomChoice(1), limits=RunLimits(firings=count)
            ).run()
            done += result.firings
        return {"run_per_second": done / spent}


def _net(shape: Shape) -> Net:
    return build("measured", *shape)


if __name__ == "__main__":
    respond(Bascule())
