"""A net as integers: a fast form that only counts tokens.

A marking is one integer. It has a field of bits for each place, with an overflow bit above each
field. So one subtraction tests all places of a transition at once, and one addition fires it. The
values of tokens, guards and expressions are ignored: only the net's skeleton fires.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .model import Net, PlaceId, TransitionId, Wiring

DEFAULT_BITS = 7
"""Bits per place, enough for 127 tokens. After `TooNarrow`, callers try more bits."""
KEEPS_ALL = -1
"""The mask, with all bits set, of a transition that empties no place."""


class TooNarrow(Exception):
    """A place holds more tokens than fit into its bit field."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A net with its markings packed into integers, with bit fields of one width."""

    bits: int
    places: tuple[PlaceId, ...]
    transitions: tuple[TransitionId, ...]
    initial: int
    overflow_bits: int
    """The overflow bits of all places. A valid marking has none of them set."""
    needs: tuple[int, ...]
    """By transition: the tokens that it needs."""
    limits: tuple[tuple[int, int], ...]
    """By transition: the most tokens inhibitors allow, and the overflow bits of their
    places. These bits are 0 if the transition has no inhibitors."""
    keeps: tuple[int, ...]
    """By transition: a mask without the places that it empties; `KEEPS_ALL` if it empties none."""
    change: tuple[int, ...]
    """By transition: the number to add to a marking. If the transition empties places, this has
    only the tokens that it puts."""

    def is_enabled(self, marking: int, transition: int) -> bool:
        # Each subtraction borrows the overflow bit of a place that has too few or too many tokens.
        overflow_bits = self.overflow_bits
        if ((marking | overflow_bits) - self.needs[transition]) & overflow_bits != overflow_bits:
            return False
        most, mask = self.limits[transition]
        return not mask or ((most | mask) - (marking & (mask - (mask >> self.bits)))) & mask == mask

    def fire(self, marking: int, transition: int) -> int:
        """The marking after an enabled transition fired. Raises `TooNarrow`."""
        keep = self.keeps[transition]
        after = marking + self.change[transition]
        if keep != KEEPS_ALL:
            after = self._fire_with_resets(marking, transition, keep)
        if after & self.overflow_bits:
            raise TooNarrow
        return after

    def enabled(self, marking: int) -> list[int]:
        return [each for each in range(len(self.transitions)) if self.is_enabled(marking, each)]

    def unpack(self, marking: int) -> list[int]:
        field = (1 << self.bits) - 1
        width = self.bits + 1
        return [(marking >> (width * spot)) & field for spot in range(len(self.places))]

    def counts(self, marking: int) -> dict[PlaceId, int]:
        return dict(zip(self.places, self.unpack(marking), strict=True))

    def affected(self) -> list[tuple[int, ...]]:
        """By transition: the transitions that its firing may enable or disable."""
        watchers: dict[int, list[int]] = {}
        for number, (needs, (_, mask)) in enumerate(zip(self.needs, self.limits, strict=True)):
            for spot in self.spots(needs | mask):
                watchers.setdefault(spot, []).append(number)
        return [
            tuple(sorted({other for spot in touched for other in watchers.get(spot, ())}))
            for touched in map(self._changed_places, range(len(self.transitions)))
        ]

    def _changed_places(self, transition: int) -> list[int]:
        # Adding the change to a marking in the middle of every field shows which fields it moves.
        middle = self.overflow_bits
        moved = (middle + self.change[transition]) ^ middle
        keep = self.keeps[transition]
        if keep != KEEPS_ALL:
            # `change` has only the tokens put: add the places that are taken from or emptied.
            everything = (1 << ((self.bits + 1) * len(self.places))) - 1
            moved |= self.needs[transition] | (everything & ~keep)
        return self.spots(moved)

    def spots(self, fields: int) -> list[int]:
        """Indices of the places whose field is not 0. The time depends only on their number."""
        width, spot = self.bits + 1, 0
        found = []
        while fields:
            empty = ((fields & -fields).bit_length() - 1) // width
            found.append(spot + empty)
            fields >>= width * (empty + 1)
            spot += empty + 1
        return found

    def _fire_with_resets(self, marking: int, transition: int, keep: int) -> int:
        # Here `change` has only the tokens put. The caller has checked `needs`.
        return ((marking - self.needs[transition]) & keep) + self.change[transition]


def pack(net: Net, bits: int = DEFAULT_BITS) -> Packed:
    """The skeleton of `net`. Raises `TooNarrow` if a number in it needs more bits."""
    places = tuple(net.places)
    spot = {place: number for number, place in enumerate(places)}
    wirings = [net.wiring[each] for each in net.transitions]
    return Packed(
        bits=bits,
        places=places,
        transitions=tuple(net.transitions),
        initial=_packed({p.id: len(p.initial) for p in net.places.values()}, spot, bits),
        overflow_bits=sum(1 << ((bits + 1) * number + bits) for number in range(len(places))),
        needs=tuple(_packed(_needs(each), spot, bits) for each in wirings),
        limits=tuple(_limits(each, spot, bits) for each in wirings),
        keeps=tuple(_kept_bits(each.resets, spot, bits) for each in wirings),
        change=tuple(_change(each, spot, bits) for each in wirings),
    )


def _needs(wiring: Wiring) -> dict[PlaceId, int]:
    sums = dict(wiring.takes)
    for place, weight in wiring.reads:
        sums[place] = sums.get(place, 0) + weight
    return sums


def _change(wiring: Wiring, spot: Mapping[PlaceId, int], bits: int) -> int:
    out: dict[PlaceId, int] = {}
    for arc in wiring.outputs:
        place = PlaceId(arc.target)
        out[place] = out.get(place, 0) + arc.weight
    if wiring.resets:
        # `fire` subtracts all needs, also those of read arcs: put the tokens read back, unless
        # their place is emptied.
        for place, weight in wiring.reads:
            if place not in wiring.resets:
                out[place] = out.get(place, 0) + weight
        return _packed(out, spot, bits)
    return _packed(out, spot, bits) - _packed(dict(wiring.takes), spot, bits)


def _limits(wiring: Wiring, spot: Mapping[PlaceId, int], bits: int) -> tuple[int, int]:
    most = {place: weight - 1 for place, weight in wiring.inhibitors}
    mask = sum(1 << ((bits + 1) * spot[place] + bits) for place in most)
    return _packed(most, spot, bits), mask


def _kept_bits(resets: Sequence[PlaceId], spot: Mapping[PlaceId, int], bits: int) -> int:
    if not resets:
        return KEEPS_ALL
    width = bits + 1
    everything = (1 << (width * len(spot))) - 1
    for place in resets:
        everything &= ~(((1 << width) - 1) << (width * spot[place]))
    return everything


def _packed(counts: Mapping[PlaceId, int], spot: Mapping[PlaceId, int], bits: int) -> int:
    if any(count >> bits for count in counts.values()):
        raise TooNarrow
    return sum(count << ((bits + 1) * spot[place]) for place, count in counts.items())


def widths() -> Iterable[int]:
    """The numbers of bits to try, the smallest first. The last is larger than any net needs."""
    return (DEFAULT_BITS, 15, 31, 63, 255)
