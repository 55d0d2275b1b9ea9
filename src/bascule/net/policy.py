"""Policies that choose which of several enabled transitions fires."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from bascule.core.errors import InvalidSetting

from .model import Net, TransitionId


class Policy(Protocol):
    def order(self, net: Net) -> Iterable[TransitionId]:
        """All transitions, in the order in which the runner tries them for the next firing."""


class FirstEnabled:
    """The enabled transition that comes first in the file. Runs are repeatable."""

    def order(self, net: Net) -> Sequence[TransitionId]:
        return tuple(net.transitions)


class HighestPriority:
    """The enabled transition with the highest priority; among equals, the first in the file."""

    def order(self, net: Net) -> Sequence[TransitionId]:
        return sorted(net.transitions, key=lambda each: -net.transitions[each].priority)


class RandomChoice:
    """A random enabled transition. The same seed gives the same run."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - to repeat a run, not to hide anything

    def order(self, net: Net) -> Iterator[TransitionId]:
        """Transitions in random order, drawn lazily: the caller stops at the first enabled
        transition."""
        remaining = list(net.transitions)
        while remaining:
            index = int(self._random.random() * len(remaining))
            remaining[index], remaining[-1] = remaining[-1], remaining[index]
            yield remaining.pop()


def policy_named(name: str, seed: int | None = None) -> Policy:
    """The policy `first`, `priority` or `random`. `seed` is for `random`; default 0."""
    match name:
        case "first":
            return FirstEnabled()
        case "priority":
            return HighestPriority()
        case "random":
            return RandomChoice(0 if seed is None else seed)
        case _:
            raise InvalidSetting(f"There is no policy '{name}'; there are first, priority, random")
