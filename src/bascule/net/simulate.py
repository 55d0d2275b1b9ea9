"""Plays a net's skeleton at full speed: tokens move, no code runs, nothing outside is touched."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .model import Net, PlaceId, TransitionId
from .packed import Packed, TooNarrow, pack, widths

DEFAULT_STEPS = 100


@dataclass(frozen=True, slots=True)
class Simulation:
    """How a game went."""

    steps: int
    firings: Mapping[TransitionId, int]
    marking: Mapping[PlaceId, int]
    is_at_rest: bool
    """No transition was enabled any more."""

    def as_json(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "firings": dict(self.firings),
            "marking": dict(self.marking),
            "atRest": self.is_at_rest,
        }


def simulate(net: Net, *, steps: int = DEFAULT_STEPS, seed: int | None = None) -> Simulation:
    """Fire up to `steps` times: the first enabled transition or, with a seed, one by lot.

    The same seed plays the same game.
    """
    for bits in widths():
        try:
            return _play(pack(net, bits), steps, None if seed is None else random.Random(seed))  # noqa: S311
        except TooNarrow:
            continue
    raise OverflowError("a place holds more than 2**255 tokens")


def _play(packed: Packed, steps: int, lot: random.Random | None) -> Simulation:
    marking, guards = packed.initial, packed.guards
    affected, is_enabled, keeps, change = (
        packed.affected(),
        packed.is_enabled,
        packed.keeps,
        packed.change,
    )
    counts = [0] * len(packed.transitions)
    enabled = packed.enabled(marking)
    done = 0
    while done < steps and enabled:
        fired = enabled[0] if lot is None else enabled[int(lot.random() * len(enabled))]
        marking = marking + change[fired] if keeps[fired] == -1 else packed.fire(marking, fired)
        if marking & guards:
            raise TooNarrow
        counts[fired] += 1
        done += 1
        looked_at = affected[fired]
        now = [each for each in looked_at if is_enabled(marking, each)]
        enabled = sorted({*enabled}.difference(looked_at).union(now))
    return Simulation(
        steps=done,
        firings=dict(zip(packed.transitions, counts, strict=True)),
        marking=packed.counts(marking),
        is_at_rest=not enabled,
    )
