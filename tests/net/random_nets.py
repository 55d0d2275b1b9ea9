"""Nets by lot, for properties that hold for all of them."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import strategies as st

from bascule.net import ArcKind, Net
from bascule.testing.nets import build

DrawnArc = tuple[str, str, int, ArcKind]


def random_net(lot: random.Random, kinds: Sequence[ArcKind] = tuple(ArcKind)) -> Net:
    """Up to five places and transitions, weights up to three, at most one arc for each pair."""
    places = {f"p{i}": lot.randrange(5) for i in range(lot.randint(1, 5))}
    transitions = [f"t{i}" for i in range(lot.randint(1, 5))]
    arcs: list[DrawnArc] = []
    for place in places:
        for transition in transitions:
            if lot.random() < 0.4:
                arcs.append((place, transition, lot.randint(1, 3), lot.choice(kinds)))
            if lot.random() < 0.4:
                arcs.append((transition, place, lot.randint(1, 3), ArcKind.NORMAL))
    return build("random", places, arcs, transitions)


def nets(kinds: Sequence[ArcKind] = tuple(ArcKind)) -> st.SearchStrategy[Net]:
    return st.randoms(use_true_random=False).map(lambda lot: random_net(lot, kinds))
