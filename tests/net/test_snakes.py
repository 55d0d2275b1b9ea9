"""Enabling and firing are as in SNAKES, on thousands of nets by lot."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from typing import Any

import pytest

from bascule.net import ArcKind, Net
from bascule.net.model import TransitionId
from bascule.net.rule import (
    Marking,
    bindings,
    forwarded_tokens,
    initial_marking,
    produced_tokens,
    put,
    take,
)
from tests.net.random_nets import random_net
from tests.net.writing import net as read_net

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import snakes.nets as snakes

KINDS = (ArcKind.NORMAL, ArcKind.NORMAL, ArcKind.READ, ArcKind.INHIBITOR)
WRAPPERS = {ArcKind.READ: "Test", ArcKind.INHIBITOR: "Inhibitor"}


def twin_of(net: Net) -> Any:
    """The same net in SNAKES."""
    twin = snakes.PetriNet(net.id)
    for place in net.places.values():
        twin.add_place(snakes.Place(place.id, [snakes.dot] * len(place.initial)))
    for transition in net.transitions:
        twin.add_transition(snakes.Transition(transition))
    for arc in net.arcs:
        label = snakes.MultiArc([snakes.Value(snakes.dot)] * arc.weight)
        if arc.kind in WRAPPERS:
            label = getattr(snakes, WRAPPERS[arc.kind])(label)
        if arc.source in net.places:
            twin.add_input(arc.source, arc.target, label)
        else:
            twin.add_output(arc.target, arc.source, label)
    return twin


def modes(transition: Any) -> list[Any]:
    """SNAKES lists none for a transition without inputs, and yet calls it enabled."""
    nothing = snakes.Substitution()
    if not transition.input() and transition.enabled(nothing):
        return [nothing]
    found: list[Any] = transition.modes()
    return found


def counts(marking: Marking) -> dict[str, int]:
    return {place: len(tokens) for place, tokens in marking.items() if tokens}


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(10))
def test_plain_nets_enable_and_fire_as_in_snakes(batch: int) -> None:
    lot = random.Random(batch)
    for _ in range(300):
        net = random_net(lot, KINDS)
        twin = twin_of(net)
        marking = initial_marking(net)
        for _ in range(6):
            ours = {each: list(bindings(net, marking, each)) for each in net.transitions}
            theirs = {each: modes(twin.transition(each)) for each in net.transitions}
            enabled = [each for each in net.transitions if ours[each]]
            assert enabled == [each for each in net.transitions if theirs[each]]
            if not enabled:
                break
            fired = lot.choice(enabled)
            twin.transition(fired).fire(theirs[fired][0])
            after, _ = take(net, marking, ours[fired][0])
            marking = put(after, forwarded_tokens(net, ours[fired][0]))
            held = twin.get_marking()
            assert counts(marking) == {place: len(held[place]) for place in held}


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(5))
def test_tokens_with_values_bind_as_in_snakes(batch: int) -> None:
    """`t` takes one from each place when the guard holds, and puts their sum."""
    lot = random.Random(1000 + batch)
    transition = TransitionId("t")
    for _ in range(200):
        marked = {f"p{i}": [lot.randrange(4) for _ in range(lot.randrange(4))] for i in range(3)}
        least = lot.randrange(9)
        places = ", ".join(f"{{id: {place}, marking: {held}}}" for place, held in marked.items())
        net = read_net(
            f"""
place: [{places}, {{id: out}}]
transition: {{id: t, arcs: [{{source: p0}}, {{source: p1}}, {{source: p2}}, {{target: out}}]}}
"""
        )
        twin = snakes.PetriNet("twin")
        for place, held in marked.items():
            twin.add_place(snakes.Place(place, held))
        twin.add_place(snakes.Place("out"))
        twin.add_transition(snakes.Transition("t", snakes.Expression(f"x + y + z >= {least}")))
        for place, name in zip(marked, "xyz", strict=True):
            twin.add_input(place, "t", snakes.Variable(name))
        twin.add_output("out", "t", snakes.Expression("x + y + z"))

        theirs = modes(twin.transition("t"))
        ours = [
            b for b in bindings(net, initial_marking(net), transition) if sum(b.tokens) >= least
        ]
        assert {b.tokens for b in ours} == {(m["x"], m["y"], m["z"]) for m in theirs}
        for binding in ours[:1]:
            x, y, z = binding.tokens
            twin.transition("t").fire(snakes.Substitution(x=x, y=y, z=z))
            after, _ = take(net, initial_marking(net), binding)
            marking = put(after, produced_tokens(net, binding, sum(binding.tokens)))
            held = twin.get_marking()
            assert {place: Counter(tokens) for place, tokens in marking.items() if tokens} == {
                place: Counter(held[place].items()) for place in held
            }
