"""SNAKES, by its own state graph and by firing modes of transitions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from benchmarks.peers.net_shapes import Shape, lots, transitions
from benchmarks.peers.net_subject import NetSubject
from benchmarks.peers.serve import respond

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import snakes.nets as snakes


class Snakes(NetSubject):
    package = "SNAKES"

    def explorer(self, shape: Shape) -> Callable[[], tuple[int, int]]:
        def walk() -> tuple[int, int]:
            graph = snakes.StateGraph(_net(shape))
            graph.build()
            return len(graph), sum(len(list(graph.successors(state))) for state in graph)

        return walk

    def player(self, shape: Shape, count: int) -> Callable[[], int]:
        net = _net(shape)
        known = list(net.transition())

        def play() -> int:
            lot = lots()
            for _ in range(count):
                enabled = [(each, mode) for each in known for mode in each.modes()[:1]]
                transition, mode = lot.choice(enabled)
                transition.fire(mode)
            return count

        return play


def _net(shape: Shape) -> Any:
    places, arcs = shape
    net = snakes.PetriNet("measured")
    for place, tokens in places.items():
        net.add_place(snakes.Place(place, [snakes.dot] * tokens))
    for transition in transitions(shape):
        net.add_transition(snakes.Transition(transition))
    for source, target in arcs:
        if source in places:
            net.add_input(source, target, snakes.Value(snakes.dot))
        else:
            net.add_output(target, source, snakes.Value(snakes.dot))
    return net


if __name__ == "__main__":
    respond(Snakes())
