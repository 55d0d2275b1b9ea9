"""The firing rule, as pure functions of markings.

A transition may fire when every place it takes or reads from holds enough tokens, every
inhibitor's place fewer than its weight, and its guards say yes to the tokens chosen. A token that
is read cannot be taken by the same firing. Places are queues: the choice that comes first in their
order, and that the guards accept, is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, cycle, islice
from typing import Any, TypeAlias

from .model import Arc, Net, PlaceId, Token, TransitionId, Wiring

Marking: TypeAlias = Mapping[PlaceId, tuple[Token, ...]]
"""Every place of the net, with its tokens, oldest first."""

Produced: TypeAlias = tuple[tuple[PlaceId, tuple[Token, ...]], ...]

Spots: TypeAlias = tuple[tuple[int, ...], ...]

TARGETED = "tokensByPlace"
"""The one key of a value that says which place gets which tokens."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A transition with the tokens it would fire with."""

    transition: TransitionId
    taken: tuple[tuple[PlaceId, tuple[int, ...]], ...]
    """Positions in the places tokens are taken from."""
    read: tuple[tuple[PlaceId, tuple[int, ...]], ...]
    tokens: tuple[Token, ...]
    """Those taken, then those read, in the order of the arcs."""
    by_place: Mapping[PlaceId, Token]
    """A place's token; a list when it gives several."""


Guard: TypeAlias = Callable[[Binding], bool]


def initial_marking(net: Net) -> Marking:
    return {place.id: place.initial for place in net.places.values()}


def has_concession(marking: Marking, wiring: Wiring) -> bool:
    """Whether there are tokens enough, whatever their value, and nothing inhibits."""
    for place, weight in wiring.takes:
        if len(marking[place]) < weight:
            return False
    for place, weight in wiring.reads:
        taken = next((each for other, each in wiring.takes if other == place), 0)
        if len(marking[place]) < weight + taken:
            return False
    return all(len(marking[place]) < weight for place, weight in wiring.inhibitors)


def bindings(net: Net, marking: Marking, transition: TransitionId) -> Iterator[Binding]:
    """Every choice of tokens the transition could fire with, guards aside, oldest tokens first.

    Choices of equal tokens are one choice.
    """
    wiring = net.wiring[transition]
    if not has_concession(marking, wiring):
        return
    needed = (*wiring.takes, *wiring.reads)
    choices = [partial(_choices, marking[place], weight) for place, weight in needed]
    split = len(wiring.takes)
    for chosen in _product(choices):
        spots = tuple((place, spot) for (place, _), spot in zip(needed, chosen, strict=True))
        taken, read = spots[:split], spots[split:]
        if not _overlap(taken, read):
            yield _binding(transition, marking, taken, read)


def first_enabled(
    net: Net, marking: Marking, transition: TransitionId, guard: Guard
) -> Binding | None:
    """The binding the transition fires with, or None when it is not enabled."""
    return next((each for each in bindings(net, marking, transition) if guard(each)), None)


def take(net: Net, marking: Marking, binding: Binding) -> tuple[Marking, Produced]:
    """What is left once the binding's tokens are gone, and all that is gone from where."""
    after = dict(marking)
    gone: dict[PlaceId, tuple[Token, ...]] = {}
    for place, spots in binding.taken:
        held = marking[place]
        gone[place] = tuple(held[spot] for spot in spots)
        after[place] = tuple(token for spot, token in enumerate(held) if spot not in spots)
    for place in net.wiring[binding.transition].resets:
        gone[place] = gone.get(place, ()) + after[place]
        after[place] = ()
    return after, tuple(gone.items())


def put(marking: Marking, produced: Produced) -> Marking:
    """`marking` with the tokens added, each behind those its place holds already."""
    after = dict(marking)
    for place, tokens in produced:
        after[place] = after[place] + tokens
    return after


def put_back(marking: Marking, gone: Produced) -> Marking:
    """`marking` with the tokens of an undone firing before all others."""
    after = dict(marking)
    for place, tokens in gone:
        after[place] = tokens + after[place]
    return after


def passed_on(net: Net, binding: Binding) -> Produced:
    """What a firing without code puts: the tokens it took, in order, as many as each arc wants."""
    given = binding.tokens or (None,)
    return tuple(
        (PlaceId(arc.target), tuple(islice(cycle(given), arc.weight)))
        for arc in net.wiring[binding.transition].outputs
    )


def made(
    net: Net, binding: Binding, value: Any, along: Callable[[Arc, Token], Token] | None = None
) -> Produced:
    """What a firing puts whose code said `value`: that, along each arc as often as it weighs.

    `{"tokensByPlace": {place: [token, …]}}` says itself what goes where. `along` is what an arc
    makes of the token. Raises `ValueError` for a place that the transition has no arc to.
    """
    outputs = net.wiring[binding.transition].outputs
    targets = _targets(value)
    if targets is not None:
        strange = targets.keys() - {arc.target for arc in outputs}
        if strange:
            raise ValueError(f"{binding.transition} has no arc to {', '.join(sorted(strange))}")
        return tuple((PlaceId(place), tuple(tokens)) for place, tokens in targets.items())
    if isinstance(value, dict) and "_drop_moved_tokens" in value:
        value = {key: each for key, each in value.items() if key != "_drop_moved_tokens"}
    return tuple(
        (PlaceId(arc.target), ((along(arc, value) if along else value),) * arc.weight)
        for arc in outputs
    )


def _targets(value: Any) -> dict[str, Sequence[Token]] | None:
    if not isinstance(value, dict) or set(value) - {"_drop_moved_tokens"} != {TARGETED}:
        return None
    return {
        str(place): tokens if isinstance(tokens, list | tuple) else [tokens]
        for place, tokens in dict(value[TARGETED]).items()
    }


def _choices(tokens: tuple[Token, ...], count: int) -> Iterator[tuple[int, ...]]:
    seen: set[Any] = set()
    for spots in combinations(range(len(tokens)), count):
        key = _key(tokens, spots)
        if key is None or key not in seen:
            seen.add(key)
            yield spots


def _product(choices: Sequence[Callable[[], Iterator[tuple[int, ...]]]]) -> Iterator[Spots]:
    """As `itertools.product`, but no further ahead than it is asked."""
    if not choices:
        yield ()
        return
    for first in choices[0]():
        for rest in _product(choices[1:]):
            yield (first, *rest)


def _key(tokens: tuple[Token, ...], spots: tuple[int, ...]) -> Any:
    """Equal for choices of equal tokens; None when that cannot be told."""
    key = tuple((type(tokens[spot]), tokens[spot]) for spot in spots)
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _overlap(
    taken: Sequence[tuple[PlaceId, tuple[int, ...]]],
    read: Sequence[tuple[PlaceId, tuple[int, ...]]],
) -> bool:
    held = dict(taken)
    return any(set(spots) & set(held.get(place, ())) for place, spots in read)


def _binding(
    transition: TransitionId,
    marking: Marking,
    taken: tuple[tuple[PlaceId, tuple[int, ...]], ...],
    read: tuple[tuple[PlaceId, tuple[int, ...]], ...],
) -> Binding:
    tokens: list[Token] = []
    by_place: dict[PlaceId, list[Token]] = {}
    for place, spots in (*taken, *read):
        chosen = [marking[place][spot] for spot in spots]
        tokens += chosen
        by_place.setdefault(place, []).extend(chosen)
    named = {place: held[0] if len(held) == 1 else held for place, held in by_place.items()}
    return Binding(transition, taken, read, tuple(tokens), named)
