"""PM4Py, by its own reachability graph and its semantics of place/transition nets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pm4py.objects.petri_net import semantics
from pm4py.objects.petri_net.obj import Marking, PetriNet
from pm4py.objects.petri_net.utils import petri_utils, reachability_graph

from benchmarks.peers.net_shapes import Shape, lots, transitions
from benchmarks.peers.net_subject import NetSubject
from benchmarks.peers.serve import respond


class Pm4py(NetSubject):
    package = "pm4py"

    def explorer(self, shape: Shape) -> Callable[[], tuple[int, int]]:
        net, initial = _net(shape)

        def walk() -> tuple[int, int]:
            graph = reachability_graph.construct_reachability_graph(net, initial)
            return len(graph.states), len(graph.transitions)

        return walk

    def player(self, shape: Shape, count: int) -> Callable[[], int]:
        net, initial = _net(shape)

        def play() -> int:
            lot, marking = lots(), initial
            for _ in range(count):
                enabled = sorted(semantics.enabled_transitions(net, marking), key=_name)
                marking = semantics.weak_execute(lot.choice(enabled), marking)
            return count

        return play


def _name(transition: Any) -> str:
    return str(transition.name)


def _net(shape: Shape) -> tuple[Any, Any]:
    counts, arcs = shape
    net = PetriNet("measured")
    nodes: dict[str, Any] = {name: PetriNet.Place(name) for name in counts}
    net.places.update(nodes.values())
    for name in transitions(shape):
        nodes[name] = PetriNet.Transition(name, name)
        net.transitions.add(nodes[name])
    for source, target in arcs:
        petri_utils.add_arc_from_to(nodes[source], nodes[target], net)
    initial = Marking({nodes[name]: tokens for name, tokens in counts.items() if tokens})
    return net, initial


if __name__ == "__main__":
    respond(Pm4py())
