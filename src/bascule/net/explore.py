"""The state space of a net: every marking its skeleton can reach, within limits.

Code is not run. For a net with guards or expressions the result is an upper bound: it includes
every marking that the net can reach with its code, and maybe others.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .model import Net, PlaceId, TransitionId
from .packed import KEEPS_ALL, Packed, TooNarrow, pack, widths

DEFAULT_STATES = 1_000_000
_STATES_PER_REPORT = 1 << 14


@dataclass(frozen=True, slots=True)
class StateSpace:
    """The result of an exploration. `edges`, `ends` and `deadlocks` count only states that were
    expanded.

    A state in which nothing can fire is an end if a run would have completed, and otherwise a
    deadlock.
    """

    states: int
    edges: int
    ends: int
    deadlocks: int
    bound: int
    """The most tokens any place held in any state."""
    complete: bool
    """Whether every reachable state was found; False if the limit was reached first."""
    skeleton: bool
    """Whether the net has code, which was ignored."""
    dead_transitions: tuple[TransitionId, ...]
    """Transitions that no state enables. Valid only if `complete`."""
    bounds: Mapping[PlaceId, int]
    path_to_deadlock: tuple[TransitionId, ...] | None
    """The shortest sequence of firings that leads to a deadlock."""
    deadlock: Mapping[PlaceId, int] | None
    """The number of tokens by place in that deadlock."""

    def as_json(self) -> dict[str, Any]:
        return {
            "states": self.states,
            "edges": self.edges,
            "ends": self.ends,
            "deadlocks": self.deadlocks,
            "bound": self.bound,
            "complete": self.complete,
            "skeleton": self.skeleton,
            "deadTransitions": list(self.dead_transitions),
            "bounds": dict(self.bounds),
            "pathToDeadlock": None
            if self.path_to_deadlock is None
            else list(self.path_to_deadlock),
            "deadlock": None
            if self.deadlock is None
            else {place: count for place, count in self.deadlock.items() if count},
        }


def explore(
    net: Net,
    *,
    max_states: int = DEFAULT_STATES,
    on_progress: Callable[[int], None] | None = None,
) -> StateSpace:
    """Find every reachable state, breadth first, up to `max_states`.

    `on_progress` is called from time to time with the number of states found.
    """
    for bits in widths():
        try:
            return _Walk(pack(net, bits), max_states, on_progress).run(net)
        except TooNarrow:
            continue
    raise OverflowError("a place holds more than 2**255 tokens")


class _Walk:
    def __init__(
        self, packed: Packed, max_states: int, on_progress: Callable[[int], None] | None
    ) -> None:
        self._packed = packed
        self._max_states = max(max_states, 1)
        self._on_progress = on_progress
        self._states: list[int] = [packed.initial]
        self._index: dict[int, int] = {packed.initial: 0}
        self._parents = array("q", [-1])
        """By state: the state before it; -1 for the initial state."""
        self._fired = array("q", [-1])
        """By state: the transition that led to it; -1 for the initial state."""
        self._enabled: list[tuple[int, ...]] = [tuple(packed.enabled(packed.initial))]
        self._max_counts = packed.initial
        """The highest count of each place in any state so far, as a marking."""
        self._affected = [(affected, frozenset(affected)) for affected in packed.affected()]
        """By transition: the transitions to check after it fires, in order and as a set."""

    def run(self, net: Net) -> StateSpace:
        edges = ends = deadlocks = 0
        first_deadlock: int | None = None
        alive: set[int] = set()
        complete = True
        state = 0
        while state < len(self._states):
            enabled = self._enabled[state]
            self._enabled[state] = ()  # not needed again: free the memory
            if not enabled and self._is_end(net, state):
                ends += 1
            elif not enabled:
                deadlocks += 1
                first_deadlock = state if first_deadlock is None else first_deadlock
            else:
                alive.update(enabled)
                edges += len(enabled)
                if not self._expand(state, enabled):
                    complete = False
                    break
            state += 1
            if self._on_progress is not None and not state % _STATES_PER_REPORT:
                self._on_progress(len(self._states))
        return self._result(net, edges, ends, deadlocks, first_deadlock, alive, complete=complete)

    def _is_end(self, net: Net, state: int) -> bool:
        counts = self._packed.counts(self._states[state])
        return net.is_completed({place for place, count in counts.items() if count})

    def _expand(self, state: int, enabled: tuple[int, ...]) -> bool:
        """Add the successors of a state. Returns False if they would exceed the limit."""
        packed, index, states = self._packed, self._index, self._states
        overflow_bits, keeps, change = packed.overflow_bits, packed.keeps, packed.change
        marking = states[state]
        for transition in enabled:
            if keeps[transition] == KEEPS_ALL:
                after = marking + change[transition]
            else:
                after = packed.fire(marking, transition)
            if after in index:
                continue
            if after & overflow_bits:
                raise TooNarrow
            if len(states) >= self._max_states:
                return False
            index[after] = len(states)
            states.append(after)
            self._parents.append(state)
            self._fired.append(transition)
            self._add_state(after, transition, enabled)
        return True

    def _add_state(self, marking: int, via: int, before: tuple[int, ...]) -> None:
        """Store the transitions that a new state enables, and raise the bounds of its places."""
        packed = self._packed
        overflow_bits, needs = packed.overflow_bits, packed.needs
        limits, bits = packed.limits, packed.bits
        padded = marking | overflow_bits
        affected, looked_at = self._affected[via]
        found = [each for each in before if each not in looked_at]
        for each in affected:
            if (padded - needs[each]) & overflow_bits == overflow_bits:
                most, mask = limits[each]
                if not mask or ((most | mask) - (marking & (mask - (mask >> bits)))) & mask == mask:
                    found.append(each)
        found.sort()
        self._enabled.append(tuple(found))
        if ((self._max_counts | overflow_bits) - marking) & overflow_bits != overflow_bits:
            self._max_counts = self._maximum_counts(marking)

    def _maximum_counts(self, marking: int) -> int:
        """`_max_counts`, with the counts of `marking` for those places where they are higher."""
        packed, top = self._packed, self._max_counts
        width, field = packed.bits + 1, (1 << packed.bits) - 1
        more = packed.overflow_bits & ~((top | packed.overflow_bits) - marking)
        for spot in packed.spots(more):
            top ^= (top ^ marking) & (field << (width * spot))
        return top

    def _result(
        self,
        net: Net,
        edges: int,
        ends: int,
        deadlocks: int,
        first_deadlock: int | None,
        alive: set[int],
        *,
        complete: bool,
    ) -> StateSpace:
        packed = self._packed
        bounds = packed.counts(self._max_counts)
        return StateSpace(
            states=len(self._states),
            edges=edges,
            ends=ends,
            deadlocks=deadlocks,
            bound=max(bounds.values(), default=0),
            complete=complete,
            skeleton=net.has_code,
            dead_transitions=tuple(
                name for number, name in enumerate(packed.transitions) if number not in alive
            ),
            bounds=bounds,
            path_to_deadlock=None if first_deadlock is None else self._path(first_deadlock),
            deadlock=None
            if first_deadlock is None
            else packed.counts(self._states[first_deadlock]),
        )

    def _path(self, state: int) -> tuple[TransitionId, ...]:
        path = []
        while self._parents[state] >= 0:
            path.append(self._packed.transitions[self._fired[state]])
            state = self._parents[state]
        return tuple(reversed(path))
