"""The nets that are measured, as plain data: peers run where nothing of ours is installed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

Shape = tuple[dict[str, int], list[tuple[str, str]]]
"""Places with their tokens, and arcs of weight 1; what is no place is a transition."""


def philosophers(n: int) -> Shape:
    """Dining philosophers who may take either fork first: 3**n states."""
    places: dict[str, int] = {}
    arcs: list[tuple[str, str]] = []
    for i in range(n):
        mine, other = f"fork{i}", f"fork{(i + 1) % n}"
        places |= {f"think{i}": 1, f"left{i}": 0, f"right{i}": 0, f"eat{i}": 0, mine: 1}
        arcs += [(f"think{i}", f"l{i}"), (mine, f"l{i}"), (f"l{i}", f"left{i}")]
        arcs += [(f"think{i}", f"r{i}"), (other, f"r{i}"), (f"r{i}", f"right{i}")]
        arcs += [(f"left{i}", f"lr{i}"), (other, f"lr{i}"), (f"lr{i}", f"eat{i}")]
        arcs += [(f"right{i}", f"rl{i}"), (mine, f"rl{i}"), (f"rl{i}", f"eat{i}")]
        arcs += [(f"eat{i}", f"d{i}"), (f"d{i}", f"think{i}"), (f"d{i}", mine), (f"d{i}", other)]
    return places, arcs


def ring(places: int, tokens: int) -> Shape:
    """Tokens that move round for ever."""
    marking = {f"p{i}": tokens if i == 0 else 0 for i in range(places)}
    arcs = [(f"p{i}", f"t{i}") for i in range(places)]
    arcs += [(f"t{i}", f"p{(i + 1) % places}") for i in range(places)]
    return marking, arcs


def transitions(shape: Shape) -> list[str]:
    places, arcs = shape
    ends = (end for arc in arcs for end in arc)
    return list(dict.fromkeys(end for end in ends if end not in places))


def per_second(work: Callable[[], int], seconds: float) -> float:
    """Do `work` again and again for a while; the sum of what it returns, per second."""
    work()
    done, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        done += work()
    return done / spent


def lots() -> random.Random:
    return random.Random(1)


Explored = dict[str, Any]
"""`states` and `edges` of the state space, and `per_second`: states found in a second."""
