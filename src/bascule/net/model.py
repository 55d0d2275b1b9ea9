"""The parts of a Petri net: plain values, each with its position in the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, NewType, TypeAlias

PlaceId = NewType("PlaceId", str)
TransitionId = NewType("TransitionId", str)

Token: TypeAlias = Any
"""What a place holds: a JSON value, in a file and in a run.

The plain token of a place/transition net, which says nothing but that it is there, is None.
"""


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A range in a file. Lines and columns count from 1; the end is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class ArcKind(StrEnum):
    NORMAL = "normal"
    """Takes tokens from a place, or puts them there."""
    READ = "read"
    """Needs tokens of its own and leaves them where they are."""
    INHIBITOR = "inhibitor"
    """Needs a place to hold fewer tokens than its weight."""
    RESET = "reset"
    """Empties a place, whatever it holds."""


class InscriptionKind(StrEnum):
    GUARD = "guard"
    """Decides whether a transition may fire with these tokens. Has no side effects."""
    EXPRESSION = "expression"
    """Does the work of a firing and returns the tokens it produces."""


@dataclass(frozen=True, slots=True)
class Inscription:
    """A piece of Python in a net."""

    id: str
    kind: InscriptionKind
    code: str
    span: Span
    """Where the code is: its first line, and the column its lines begin at."""
    is_async: bool = False
    timeout: float | None = None
    """Seconds an async one may take."""
    keeps_lines: bool = True
    """Each line of `code` is a line of the file (not so when YAML has folded them)."""


@dataclass(frozen=True, slots=True)
class Place:
    id: PlaceId
    span: Span
    name: str = ""
    initial: tuple[Token, ...] = ()
    is_final: bool = False
    """A net that stops with a token here has completed."""


@dataclass(frozen=True, slots=True)
class Transition:
    id: TransitionId
    span: Span
    name: str = ""
    guards: tuple[Inscription, ...] = ()
    expressions: tuple[Inscription, ...] = ()
    priority: int = 0

    @property
    def inscriptions(self) -> tuple[Inscription, ...]:
        return (*self.guards, *self.expressions)


@dataclass(frozen=True, slots=True)
class Arc:
    id: str
    source: str
    target: str
    span: Span
    weight: int = 1
    kind: ArcKind = ArcKind.NORMAL
    expression: Inscription | None = None
    """Makes the token an output arc puts, from the one that came out of the firing."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """A transition's arcs, sorted by what they do, each group in the order of the file."""

    takes: tuple[tuple[PlaceId, int], ...] = ()
    """Places with the sum of the weights of all arcs that take from them."""
    reads: tuple[tuple[PlaceId, int], ...] = ()
    inhibitors: tuple[tuple[PlaceId, int], ...] = ()
    """Places with the smallest weight of all such arcs."""
    resets: tuple[PlaceId, ...] = ()
    outputs: tuple[Arc, ...] = ()


@dataclass(frozen=True)
class Net:
    """A valid net: every arc connects a place and a transition."""

    id: str
    file: str
    places: Mapping[PlaceId, Place]
    transitions: Mapping[TransitionId, Transition]
    arcs: Sequence[Arc]
    name: str = ""
    text: str = field(default="", repr=False)
    """The file it was read from."""

    @cached_property
    def wiring(self) -> Mapping[TransitionId, Wiring]:
        arcs: dict[str, list[Arc]] = {each: [] for each in self.transitions}
        for arc in self.arcs:
            arcs[arc.source if arc.source in arcs else arc.target].append(arc)
        return {each: _sorted(each, arcs[each]) for each in self.transitions}

    @cached_property
    def has_code(self) -> bool:
        """Some of it is Python, so that its tokens mean more than that they are there."""
        inscribed = any(each.inscriptions for each in self.transitions.values())
        return inscribed or any(arc.expression for arc in self.arcs)

    @cached_property
    def final_places(self) -> frozenset[PlaceId]:
        return frozenset(place.id for place in self.places.values() if place.is_final)

    @cached_property
    def consumed_places(self) -> frozenset[PlaceId]:
        """Places some transition takes tokens from."""
        return frozenset(place for each in self.wiring.values() for place, _ in each.takes)

    def is_completed(self, held: AbstractSet[PlaceId]) -> bool:
        """Whether a net in which nothing can fire has completed, with tokens in the places `held`;
        else it is a deadlock. Without a final place, tokens that some transition could have taken
        were meant to go on."""
        if self.final_places:
            return bool(held & self.final_places)
        return not held & self.consumed_places


def _sorted(id: TransitionId, arcs: Sequence[Arc]) -> Wiring:
    inward = [arc for arc in arcs if arc.target == id]
    limits: dict[PlaceId, int] = {}
    for arc in (arc for arc in inward if arc.kind is ArcKind.INHIBITOR):
        place = PlaceId(arc.source)
        limits[place] = min(arc.weight, limits.get(place, arc.weight))
    return Wiring(
        takes=_summed(arc for arc in inward if arc.kind is ArcKind.NORMAL),
        reads=_summed(arc for arc in inward if arc.kind is ArcKind.READ),
        inhibitors=tuple(limits.items()),
        resets=tuple(
            dict.fromkeys(PlaceId(arc.source) for arc in inward if arc.kind is ArcKind.RESET)
        ),
        outputs=tuple(arc for arc in arcs if arc.source == id),
    )


def _summed(arcs: Iterable[Arc]) -> tuple[tuple[PlaceId, int], ...]:
    sums: dict[PlaceId, int] = {}
    for arc in arcs:
        place = PlaceId(arc.source)
        sums[place] = sums.get(place, 0) + arc.weight
    return tuple(sums.items())
