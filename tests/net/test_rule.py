"""The firing rule: pure, the same in both its forms, and true to what it must conserve."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bascule.net import ArcKind, Net
from bascule.net.invariants import place_invariants
from bascule.net.model import PlaceId, TransitionId
from bascule.net.packed import pack
from bascule.net.rule import (
    Binding,
    Marking,
    bindings,
    first_enabled,
    forwarded_tokens,
    initial_marking,
    produced_tokens,
    put,
    return_tokens,
    take,
)
from bascule.testing.nets import philosophers, ring
from tests.net.random_nets import nets
from tests.net.writing import net

T = TransitionId("t")


def fire(net: Net, marking: Marking, binding: Binding) -> Marking:
    after, _ = take(net, marking, binding)
    return put(after, forwarded_tokens(net, binding))


def counts(marking: Marking) -> dict[PlaceId, int]:
    return {place: len(tokens) for place, tokens in marking.items()}


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(nets(), st.lists(st.integers(0, 99), max_size=12))
def test_the_firing_rule_and_the_packed_form_agree(net: Net, lots: list[int]) -> None:
    packed = pack(net, 31)
    marking, number = initial_marking(net), packed.initial
    for lot in lots:
        enabled = {each: list(bindings(net, marking, each)) for each in net.transitions}
        assert packed.enabled(number) == [
            spot for spot, each in enumerate(net.transitions) if enabled[each]
        ]
        possible = [spot for spot, each in enumerate(net.transitions) if enabled[each]]
        if not possible:
            return
        spot = possible[lot % len(possible)]
        marking = fire(net, marking, enabled[packed.transitions[spot]][0])
        number = packed.fire(number, spot)
        assert packed.counts(number) == counts(marking)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    nets((ArcKind.NORMAL, ArcKind.READ, ArcKind.INHIBITOR)),
    st.lists(st.integers(0, 99), max_size=15),
)
def test_firing_keeps_every_place_invariant(net: Net, lots: list[int]) -> None:
    invariants = place_invariants(net)
    marking = initial_marking(net)
    before = [_weighed(marking, each) for each in invariants]
    for lot in lots:
        enabled = [b for each in net.transitions for b in bindings(net, marking, each)]
        if not enabled:
            break
        marking = fire(net, marking, enabled[lot % len(enabled)])
        assert [_weighed(marking, each) for each in invariants] == before


def test_a_ring_keeps_its_tokens_and_a_philosopher_their_forks() -> None:
    assert place_invariants(ring(3, 2)) == [{"p0": 1, "p1": 1, "p2": 1}]
    # One for each fork and one for each philosopher.
    assert len(place_invariants(philosophers(4))) == 8


def _weighed(marking: Marking, invariant: dict[PlaceId, int]) -> int:
    return sum(weight * len(marking[place]) for place, weight in invariant.items())


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(nets())
def test_undoing_a_firing_restores_the_previous_marking(net: Net) -> None:
    marking = initial_marking(net)
    for transition in net.transitions:
        for binding in bindings(net, marking, transition):
            after, removed = take(net, marking, binding)
            assert counts(return_tokens(after, removed)) == counts(marking)


JOIN = """
place: [{id: p, marking: [1, 5, 2]}, {id: q, marking: [a, b]}, {id: r}]
transition: {id: t, arcs: [{source: p}, {source: q}, {target: r}]}
"""


def test_bindings_are_offered_oldest_tokens_first() -> None:
    found = net(JOIN)

    offered = [b.tokens for b in bindings(found, initial_marking(found), T)]
    assert offered == [(1, "a"), (1, "b"), (5, "a"), (5, "b"), (2, "a"), (2, "b")]


def test_the_first_binding_that_the_guard_accepts_is_used() -> None:
    found = net(JOIN)
    binding = first_enabled(found, initial_marking(found), T, lambda b: b.tokens[0] > 3)

    assert binding is not None
    assert dict(binding.by_place) == {"p": 5, "q": "a"}
    assert take(found, initial_marking(found), binding)[0] == {
        "p": (1, 2),
        "q": ("b",),
        "r": (),
    }


def test_equal_tokens_give_one_binding() -> None:
    found = net("place: {id: p, marking: [1, 1, true]}\ntransition: {id: t, arcs: {source: p}}")

    assert [b.tokens for b in bindings(found, initial_marking(found), T)] == [(1,), (True,)]


def test_a_weighted_arc_forwards_as_many_tokens_as_its_weight_in_order() -> None:
    found = net(
        """
        place: [{id: p, marking: [a, b, c]}, {id: q}, {id: r}]
        transition: {id: t, arcs: [{source: p, weight: 2}, {target: q, weight: 2}, {target: r}]}
        """
    )
    binding = next(bindings(found, initial_marking(found), T))

    assert forwarded_tokens(found, binding) == (("q", ("a", "b")), ("r", ("a",)))


def test_a_value_is_sent_on_every_arc_or_to_the_places_it_names() -> None:
    found = net(JOIN)
    binding = next(bindings(found, initial_marking(found), T))

    assert produced_tokens(found, binding, 7) == (("r", (7,)),)
    assert produced_tokens(found, binding, {"tokensByPlace": {"r": [7, 8]}}) == (("r", (7, 8)),)
    assert produced_tokens(found, binding, {"x": 1, "_drop_moved_tokens": True}) == (
        ("r", ({"x": 1},)),
    )
    with pytest.raises(ValueError, match="no arc to q"):
        produced_tokens(found, binding, {"tokensByPlace": {"q": [7]}})


def test_a_transition_without_inputs_is_enabled() -> None:
    found = net("place: {id: p}\ntransition: {id: t, arcs: {target: p}}")

    assert forwarded_tokens(found, next(bindings(found, initial_marking(found), T))) == (
        ("p", (None,)),
    )
