"""The firing rule, as pure functions of markings.

A transition may fire when every place it takes or reads from holds enough tokens, every
inhibitor's place holds fewer tokens than the arc's weight, and its guards accept the chosen tokens.
A firing cannot take a token that it reads. Places are queues: the first choice of tokens that the
guards accept is used.
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
"""The only key in the result of code that assigns tokens to places."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A transition, and the tokens with which it would fire."""

    transition: TransitionId
    taken: tuple[tuple[PlaceId, tuple[int, ...]], ...]
    """Places from which tokens are taken, with the positions of the tokens."""
    read: tuple[tuple[PlaceId, tuple[int, ...]], ...]
    tokens: tuple[Token, ...]
    """The taken tokens, then the read tokens, in the order of the arcs."""
    by_place: Mapping[PlaceId, Token]
    """The token of each place; a list if the place has several tokens in this binding."""


Guard: TypeAlias = Callable[[Binding], bool]


def initial_marking(net: Net) -> Marking:
    return {place.id: place.initial for place in net.places.values()}


def has_concession(marking: Marking, wiring: Wiring) -> bool:
    """Whether there are enough tokens, of any value, and no inhibitor arc prevents the firing."""
    for place, weight in wiring.takes:
        if len(marking[place]) < weight:
            return False
    for place, weight in wiring.reads:
        taken = next((each for other, each in wiring.takes if other == place), 0)
        if len(marking[place]) < weight + taken:
            return False
    return all(len(marking[place]) < weight for place, weight in wiring.inhibitors)


def bindings(net: Net, marking: Marking, transition: TransitionId) -> Iterator[Binding]:
    """Every choice of tokens with which the transition could fire, oldest first, without guards.

    Choices of equal tokens count once.
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
    """The binding with which the transition fires, or None if it is not enabled."""
    return next((each for each in bindings(net, marking, transition) if guard(each)), None)


def take(net: Net, marking: Marking, binding: Binding) -> tuple[Marking, Produced]:
    """Remove a binding's tokens: returns the new marking, and the removed tokens by place."""
    after = dict(marking)
    removed: dict[PlaceId, tuple[Token, ...]] = {}
    for place, spots in binding.taken:
        held = marking[place]
        removed[place] = tuple(held[spot] for spot in spots)
        after[place] = tuple(token for spot, token in enumerate(held) if spot not in spots)
    for place in net.wiring[binding.transition].resets:
        removed[place] = removed.get(place, ()) + after[place]
        after[place] = ()
    return after, tuple(removed.items())


def put(marking: Marking, produced: Produced) -> Marking:
    """`marking` with the tokens appended to their places."""
    after = dict(marking)
    for place, tokens in produced:
        after[place] = after[place] + tokens
    return after


def return_tokens(marking: Marking, removed: Produced) -> Marking:
    """`marking` with the tokens of an undone firing at the front of their places."""
    after = dict(marking)
    for place, tokens in removed:
        after[place] = tokens + after[place]
    return after


def forwarded_tokens(net: Net, binding: Binding) -> Produced:
    """Tokens that a firing without code puts: for each arc the tokens of the binding in order,
    repeated up to the arc's weight."""
    tokens = binding.tokens or (None,)
    return tuple(
        (PlaceId(arc.target), tuple(islice(cycle(tokens), arc.weight)))
        for arc in net.wiring[binding.transition].outputs
    )


def produced_tokens(
    net: Net, binding: Binding, value: Any, change: Callable[[Arc, Token], Token] | None = None
) -> Produced:
    """Tokens that a firing puts if its code returned `value`: `weight` copies along each arc.

    `{"tokensByPlace": {place: [token, …]}}` assigns tokens to places instead. `change` applies an
    arc's code to the token. Raises `ValueError` for a place to which the transition has no arc.
    """
    outputs = net.wiring[binding.transition].outputs
    targets = _targets(value)
    if targets is not None:
        unknown = targets.keys() - {arc.target for arc in outputs}
        if unknown:
            raise ValueError(f"{binding.transition} has no arc to {', '.join(sorted(unknown))}")
        return tuple((PlaceId(place), tuple(tokens)) for place, tokens in targets.items())
    if isinstance(value, dict) and "_drop_moved_tokens" in value:
        value = {key: each for key, each in value.items() if key != "_drop_moved_tokens"}
    return tuple(
        (PlaceId(arc.target), ((change(arc, value) if change else value),) * arc.weight)
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
    """Like `itertools.product`, but computes each item only when it is needed."""
    if not choices:
        yield ()
        return
    for first in choices[0]():
        for rest in _product(choices[1:]):
            yield (first, *rest)


def _key(tokens: tuple[Token, ...], spots: tuple[int, ...]) -> Any:
    """A key that is equal for choices of equal tokens; None if the tokens are not hashable."""
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
