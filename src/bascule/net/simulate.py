"""Simulates a net's skeleton at full speed: tokens move, but no code runs."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .model import Net, PlaceId, TransitionId
from .packed import KEEPS_ALL, Packed, TooNarrow, pack, widths

DEFAULT_STEPS = 100


@dataclass(frozen=True, slots=True)
class Simulation:
    """The result of a simulation."""

    steps: int
    firings: Mapping[TransitionId, int]
    marking: Mapping[PlaceId, int]
    is_at_rest: bool
    """Whether no transition was enabled at the end."""

    def as_json(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "firings": dict(self.firings),
            "marking": dict(self.marking),
            "atRest": self.is_at_rest,
        }


def simulate(net: Net, *, steps: int = DEFAULT_STEPS, seed: int | None = None) -> Simulation:
    """Fire up to `steps` times: the first enabled transition or, with a seed, a random one.

    The same seed gives the same result.
    """
    for bits in widths():
        try:
            return _simulate(pack(net, bits), steps, None if seed is None else random.Random(seed))  # noqa: S311
        except TooNarrow:
            continue
    raise OverflowError("a place holds more than 2**255 tokens")


def _simulate(packed: Packed, steps: int, generator: random.Random | None) -> Simulation:
    marking, overflow_bits, affected = packed.initial, packed.overflow_bits, packed.affected()
    needs, keeps, change = packed.needs, packed.keeps, packed.change
    has_inhibitors = [bool(inhibiting_places) for _, inhibiting_places in packed.limits]
    counts = [0] * len(packed.transitions)
    enabled = packed.enabled(marking)
    spots = [-1] * len(packed.transitions)
    """The index of each transition in `enabled`; -1 if it is not enabled."""
    for spot, transition in enumerate(enabled):
        spots[transition] = spot
    done = 0
    while done < steps and enabled:
        fired = (
            min(enabled) if generator is None else enabled[int(generator.random() * len(enabled))]
        )
        empties_none = keeps[fired] == KEEPS_ALL
        marking = marking + change[fired] if empties_none else packed.fire(marking, fired)
        if marking & overflow_bits:
            raise TooNarrow
        counts[fired] += 1
        done += 1
        padded = marking | overflow_bits
        for other in affected[fired]:
            spot = spots[other]
            # The subtraction borrows the overflow bit of a place that has too few tokens.
            if (padded - needs[other]) & overflow_bits == overflow_bits and (
                not has_inhibitors[other] or packed.is_enabled(marking, other)
            ):
                if spot < 0:
                    spots[other] = len(enabled)
                    enabled.append(other)
            elif spot >= 0:
                # The last item moves to the free index: the order of `enabled` does not matter.
                last = enabled.pop()
                if last != other:
                    enabled[spot], spots[last] = last, spot
                spots[other] = -1
    return Simulation(
        steps=done,
        firings=dict(zip(packed.transitions, counts, strict=True)),
        marking=packed.counts(marking),
        is_at_rest=not enabled,
    )
