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
"""A token: a JSON value, in a file and in a run.

None is the plain token of a place/transition net, which has no value.
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
    """Needs tokens that the firing does not take, and leaves them in the place."""
    INHIBITOR = "inhibitor"
    """Needs a place to hold fewer tokens than its weight."""
    RESET = "reset"
    """Removes all tokens of a place, if any."""


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
    """Position of the code: its first line, and the column at which its lines begin."""
    is_async: bool = False
    timeout: float | None = None
    """Seconds that an async inscription may take."""
    lines_match_file: bool = True
    """Whether each line of `code` is a line of the file; False if YAML has folded the lines."""


@dataclass(frozen=True, slots=True)
class Place:
    id: PlaceId
    span: Span
    name: str = ""
    initial: tuple[Token, ...] = ()
    is_final: bool = False
    """Whether a net that stops with a token in this place has completed."""


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
    """Computes the token that an output arc puts from the token that the firing produced."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """A transition's arcs, grouped by their effect. Each group is in the order of the file."""

    takes: tuple[tuple[PlaceId, int], ...] = ()
    """Places, each with the sum of the weights of all arcs that take tokens from it."""
    reads: tuple[tuple[PlaceId, int], ...] = ()
    inhibitors: tuple[tuple[PlaceId, int], ...] = ()
    """Places, each with the smallest weight of its inhibitor arcs."""
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
    """The text of the file."""

    @cached_property
    def wiring(self) -> Mapping[TransitionId, Wiring]:
        arcs: dict[str, list[Arc]] = {each: [] for each in self.transitions}
        for arc in self.arcs:
            arcs[arc.source if arc.source in arcs else arc.target].append(arc)
        return {each: _wiring_of(each, arcs[each]) for each in self.transitions}

    @cached_property
    def has_code(self) -> bool:
        """Whether the net has Python code, so that the values of tokens matter."""
        inscribed = any(each.inscriptions for each in self.transitions.values())
        return inscribed or any(arc.expression for arc in self.arcs)

    @cached_property
    def final_places(self) -> frozenset[PlaceId]:
        return frozenset(place.id for place in self.places.values() if place.is_final)

    @cached_property
    def consumed_places(self) -> frozenset[PlaceId]:
        """Places from which some transition takes tokens."""
        return frozenset(place for each in self.wiring.values() for place, _ in each.takes)

    def is_completed(self, marked_places: AbstractSet[PlaceId]) -> bool:
        """Whether a net in which nothing can fire has completed. Otherwise it is in a deadlock.

        `marked_places`: the places with tokens. If the net has final places, one of them must hold
        tokens. Otherwise no place may hold tokens that some transition takes.
        """
        if self.final_places:
            return bool(marked_places & self.final_places)
        return not marked_places & self.consumed_places


def _wiring_of(id: TransitionId, arcs: Sequence[Arc]) -> Wiring:
    inward = [arc for arc in arcs if arc.target == id]
    limits: dict[PlaceId, int] = {}
    for arc in (arc for arc in inward if arc.kind is ArcKind.INHIBITOR):
        place = PlaceId(arc.source)
        limits[place] = min(arc.weight, limits.get(place, arc.weight))
    return Wiring(
        takes=_weight_by_place(arc for arc in inward if arc.kind is ArcKind.NORMAL),
        reads=_weight_by_place(arc for arc in inward if arc.kind is ArcKind.READ),
        inhibitors=tuple(limits.items()),
        resets=tuple(
            dict.fromkeys(PlaceId(arc.source) for arc in inward if arc.kind is ArcKind.RESET)
        ),
        outputs=tuple(arc for arc in arcs if arc.source == id),
    )


def _weight_by_place(arcs: Iterable[Arc]) -> tuple[tuple[PlaceId, int], ...]:
    sums: dict[PlaceId, int] = {}
    for arc in arcs:
        place = PlaceId(arc.source)
        sums[place] = sums.get(place, 0) + arc.weight
    return tuple(sums.items())
