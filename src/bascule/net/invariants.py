"""Place invariants: weighted sums of tokens that no firing changes."""

from __future__ import annotations

from fractions import Fraction
from math import gcd, lcm

from .model import Net, PlaceId


def incidence(net: Net) -> dict[PlaceId, list[int]]:
    """By place: the number of tokens by which each transition changes the place, in the order of
    the net.

    Raises `ValueError` for a net with reset arcs, because their effect depends on the marking.
    """
    rows = {place: [0] * len(net.transitions) for place in net.places}
    for column, transition in enumerate(net.transitions):
        wiring = net.wiring[transition]
        if wiring.resets:
            raise ValueError(f"{transition} has reset arcs: what it changes depends on the marking")
        for place, weight in wiring.takes:
            rows[place][column] -= weight
        for arc in wiring.outputs:
            rows[PlaceId(arc.target)][column] += arc.weight
    return rows


def place_invariants(net: Net) -> list[dict[PlaceId, int]]:
    """A basis of the net's place invariants: integers without a common factor, by place."""
    places = list(net.places)
    matrix = [[Fraction(value) for value in row] for row in incidence(net).values()]
    unit = [[Fraction(int(i == j)) for j in range(len(places))] for i in range(len(places))]
    row = 0
    for column in range(len(net.transitions)):
        pivot = next((r for r in range(row, len(places)) if matrix[r][column]), None)
        if pivot is None:
            continue
        matrix[row], matrix[pivot] = matrix[pivot], matrix[row]
        unit[row], unit[pivot] = unit[pivot], unit[row]
        for other in range(row + 1, len(places)):
            factor = matrix[other][column] / matrix[row][column]
            if factor:
                matrix[other] = _subtract(matrix[other], matrix[row], factor)
                unit[other] = _subtract(unit[other], unit[row], factor)
        row += 1
    return [_as_integers(places, weights) for weights in unit[row:]]


def _subtract(row: list[Fraction], other: list[Fraction], factor: Fraction) -> list[Fraction]:
    return [a - factor * b for a, b in zip(row, other, strict=True)]


def _as_integers(places: list[PlaceId], weights: list[Fraction]) -> dict[PlaceId, int]:
    scale = lcm(*(weight.denominator for weight in weights))
    numbers = [int(weight * scale) for weight in weights]
    shared = gcd(*numbers) or 1
    return {
        place: number // shared for place, number in zip(places, numbers, strict=True) if number
    }
