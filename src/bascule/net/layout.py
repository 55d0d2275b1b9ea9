"""Positions of a net's nodes in a drawing: layers from left to right along the arcs.

The layout is computed in the usual four steps: break cycles, assign layers, order each layer so
that few arcs cross, and choose heights. An arc that crosses a layer gets a bend there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean
from typing import Final

from .model import Arc, Net

COLUMN: Final = 110.0
ROW: Final = 78.0
_SWEEP_COUNT: Final = 12

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Layout:
    width: float
    height: float
    nodes: Mapping[str, Point]
    """The centre of every place and transition."""
    bends: Mapping[str, Sequence[Point]]
    """By arc: the points between its ends, from source to target."""


def lay_out(net: Net) -> Layout:
    """The layout of a net; always the same for the same net."""
    layers = _layers(net)
    chains, order = _with_bends(net, layers)
    neighbours: dict[str, list[str]] = defaultdict(list)
    for chain in chains.values():
        for before, after in pairwise(chain):
            neighbours[before].append(after)
            neighbours[after].append(before)
    _reduce_crossings(order, neighbours)
    heights = _heights(order, neighbours)
    places = {
        node: ((number + 0.5) * COLUMN, heights[node])
        for number, layer in enumerate(order)
        for node in layer
    }
    return Layout(
        width=max(len(order), 1) * COLUMN,
        height=max(heights.values(), default=0.0) + ROW * 0.5,
        nodes={node: places[node] for node in (*net.places, *net.transitions)},
        bends={
            arc.id: [places[node] for node in _from_source(arc, chains[arc.id])[1:-1]]
            for arc in net.arcs
        },
    )


def _from_source(arc: Arc, chain: Sequence[str]) -> Sequence[str]:
    return chain if chain[0] == arc.source else chain[::-1]


def _layers(net: Net) -> dict[str, int]:
    """The layer of each node. Every arc that does not close a circle leads to a higher layer."""
    after: dict[str, list[str]] = defaultdict(list)
    for arc in net.arcs:
        after[arc.source].append(arc.target)
    finished = _post_order(net, after)
    rank = {node: number for number, node in enumerate(reversed(finished))}
    layers = dict.fromkeys(rank, 0)
    for node in reversed(finished):
        for target in after[node]:
            if rank[target] > rank[node]:
                layers[target] = max(layers[target], layers[node] + 1)
    # A node without incoming arcs goes to the layer before its first target.
    for node in finished:
        if not any(node in after[other] for other in after):
            later = [layers[target] for target in after[node] if rank[target] > rank[node]]
            layers[node] = max(min(later) - 1, 0) if later else layers[node]
    return layers


def _post_order(net: Net, after: Mapping[str, Sequence[str]]) -> list[str]:
    """The nodes in post-order of a depth-first search that starts at places with tokens."""
    marked = [place.id for place in net.places.values() if place.initial]
    seen: set[str] = set()
    finished: list[str] = []
    for root in (*marked, *net.places, *net.transitions):
        if root in seen:
            continue
        seen.add(root)
        path = [(root, iter(after.get(root, ())))]
        while path:
            node, targets = path[-1]
            following = next((each for each in targets if each not in seen), None)
            if following is None:
                path.pop()
                finished.append(node)
            else:
                seen.add(following)
                path.append((following, iter(after.get(following, ()))))
    return finished


def _with_bends(
    net: Net, layers: Mapping[str, int]
) -> tuple[dict[str, list[str]], list[list[str]]]:
    """By arc: its nodes and bends, beginning at the lower layer. And by layer: all nodes and
    bends."""
    order: list[list[str]] = [[] for _ in range(max(layers.values(), default=0) + 1)]
    for node in (*net.places, *net.transitions):
        order[layers[node]].append(node)
    chains: dict[str, list[str]] = {}
    for arc in net.arcs:
        low, high = sorted((arc.source, arc.target), key=lambda node: layers[node])
        bends = []
        for layer in range(layers[low] + 1, layers[high]):
            bend = f"{arc.id}\0{layer}"
            order[layer].append(bend)
            bends.append(bend)
        chains[arc.id] = [low, *bends, high]
    return chains, order


def _reduce_crossings(order: list[list[str]], neighbours: Mapping[str, Sequence[str]]) -> None:
    """Sort each layer by the positions of its neighbours, sweeping in alternating directions."""
    for sweep in range(_SWEEP_COUNT):
        spots = {node: spot for layer in order for spot, node in enumerate(layer)}
        for layer in order if sweep % 2 else reversed(order):
            centre = {node: _centre(node, spots, neighbours) for node in layer}
            layer.sort(key=centre.__getitem__)
            spots.update((node, spot) for spot, node in enumerate(layer))


def _centre(
    node: str, spots: Mapping[str, float], neighbours: Mapping[str, Sequence[str]]
) -> float:
    near = [spots[other] for other in neighbours[node]] if node in neighbours else []
    return mean(near) if near else spots[node]


def _heights(
    order: Sequence[Sequence[str]], neighbours: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """Heights near the neighbours, in the order of the layer, at least one row apart."""
    heights = {node: spot * ROW for layer in order for spot, node in enumerate(layer)}
    for sweep in range(_SWEEP_COUNT):
        for layer in order if sweep % 2 else reversed(order):
            wanted = [_centre(node, heights, neighbours) for node in layer]
            heights.update(zip(layer, _spaced_heights(wanted), strict=True))
    top = min(heights.values(), default=0.0)
    return {node: height - top + ROW * 0.5 for node, height in heights.items()}


def _spaced_heights(wanted: Sequence[float]) -> list[float]:
    """Heights at least one row apart, near the `wanted` heights."""
    down = list(wanted)
    for spot in range(1, len(down)):
        down[spot] = max(down[spot], down[spot - 1] + ROW)
    up = list(wanted)
    for spot in range(len(up) - 2, -1, -1):
        up[spot] = min(up[spot], up[spot + 1] - ROW)
    return [(a + b) / 2 for a, b in zip(down, up, strict=True)]
