"""State spaces have the sizes that formulas give them."""

from __future__ import annotations

import time
from collections import deque
from math import comb

import pytest
from hypothesis import given, settings

from bascule.net import Net, Runner, explore, load_bytes, simulate
from bascule.net.model import ArcKind
from bascule.net.packed import TooNarrow, pack
from bascule.net.rule import Marking, bindings, forwarded_tokens, initial_marking, put, take
from bascule.testing.nets import (
    buffer,
    build,
    forks,
    fountain,
    philosophers,
    ring,
    switches,
)
from tests.net.hostile import hostile
from tests.net.random_nets import nets

Sizes = tuple[int, int, int, int]


def sizes(net: Net) -> Sizes:
    found = explore(net)
    assert found.complete
    return (found.states, found.edges, found.ends + found.deadlocks, found.bound)


def test_the_state_space_of_five_philosophers_is_correct() -> None:
    assert sizes(philosophers(5)) == (243, 945, 2, 1)


@pytest.mark.parametrize("n", range(2, 8))
def test_n_philosophers_have_three_to_the_n_states_and_two_deadlocks(n: int) -> None:
    found = explore(philosophers(n))

    assert (found.states, found.deadlocks) == (3**n, 2)
    assert found.path_to_deadlock is not None
    assert len(found.path_to_deadlock) == n


@pytest.mark.parametrize(("places", "tokens"), [(2, 3), (4, 6), (5, 5), (3, 200)])
def test_exploring_a_ring_finds_every_distribution_of_its_tokens(places: int, tokens: int) -> None:
    found = explore(ring(places, tokens))

    assert found.states == comb(tokens + places - 1, places - 1)
    assert found.edges == places * comb(tokens + places - 2, places - 1)
    assert (found.deadlocks, found.bound) == (0, tokens)


@pytest.mark.parametrize("n", [1, 3, 10])
def test_n_switches_have_two_to_the_n_states(n: int) -> None:
    assert sizes(switches(n)) == (2**n, n * 2**n, 0, 1)


@pytest.mark.parametrize(("n", "length"), [(1, 1), (3, 4), (4, 3)])
def test_the_states_of_parallel_branches_multiply(n: int, length: int) -> None:
    inside = (length + 1) ** n

    assert sizes(forks(n, length)) == (
        inside + 2,
        2 + n * length * (length + 1) ** (n - 1),
        1,
        1,
    )


@pytest.mark.parametrize("capacity", [1, 7, 300, 70_000])
def test_an_inhibitor_arc_bounds_a_producer(capacity: int) -> None:
    if capacity > 1000:
        assert explore(buffer(capacity), max_states=10).states == 10
        return
    assert sizes(buffer(capacity)) == (capacity + 1, 2 * capacity, 0, capacity)


def test_exploring_an_unbounded_net_stops_at_the_limit_and_says_so() -> None:
    found = explore(fountain(), max_states=5000)

    assert (found.states, found.complete, found.bound) == (5000, False, 4999)


def test_a_read_arc_requires_its_token_without_consuming_it() -> None:
    arcs = [
        ("p", "t", 1, ArcKind.READ),
        ("q", "t", 1, ArcKind.NORMAL),
        ("t", "r", 1, ArcKind.NORMAL),
    ]
    found = explore(build("reader", {"p": 1, "q": 2, "r": 0}, arcs))

    assert (found.states, found.edges, dict(found.bounds)) == (3, 2, {"p": 1, "q": 2, "r": 2})


def test_one_firing_cannot_both_read_and_consume_a_token() -> None:
    greedy = build("greedy", {"p": 2}, [("p", "t", 1, ArcKind.READ), ("p", "t", 2)])

    assert explore(greedy).edges == 0


def test_a_reset_arc_empties_its_place_whatever_it_holds() -> None:
    found = explore(
        build(
            "reset",
            {"p": 3, "go": 1},
            [
                *(("p", "t", 1, ArcKind.RESET), ("go", "t"), ("t", "p")),
                *(("p", "never"), ("go", "never", 2)),
            ],
        )
    )

    assert (found.states, found.edges) == (2, 1)
    assert found.deadlock == {"p": 1, "go": 0}


async def test_ends_and_deadlocks_match_the_outcomes_of_a_run() -> None:
    line = [("p", "t"), ("t", "q")]
    done = build("done", {"p": 1, "q": 0}, line)
    stuck = build("stuck", {"p": 1, "q": 0, "r": 0}, [*line, ("q", "u"), ("r", "u")])

    for net, ends, deadlocks, outcome in ((done, 1, 0, "completed"), (stuck, 0, 1, "deadlock")):
        found = explore(net)
        assert (found.ends, found.deadlocks) == (ends, deadlocks)
        assert (await Runner(net, None).run()).outcome == outcome


def test_transitions_that_no_state_enables_are_named() -> None:
    dead = build("dead", {"p": 1, "q": 0}, [("p", "t"), ("t", "p"), ("q", "never")])

    assert explore(dead).dead_transitions == ("never",)


def test_a_token_count_that_overflows_its_field_is_detected() -> None:
    with pytest.raises(TooNarrow):
        pack(ring(2, 200), bits=7)

    assert simulate(fountain(), steps=1000).marking == {"pool": 1000}


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(nets())
def test_the_fast_exploration_matches_the_plain_firing_rule(net: Net) -> None:
    """The plain one looks at every transition of every state, by the rule itself."""
    limit = 150
    start = initial_marking(net)
    states, edges = {_key(start): start}, 0
    queue = deque([start])
    while queue and len(states) < limit:
        marking = queue.popleft()
        for transition in net.transitions:
            binding = next(bindings(net, marking, transition), None)
            if binding is None:
                continue
            edges += 1
            after = put(take(net, marking, binding)[0], forwarded_tokens(net, binding))
            if _key(after) not in states:
                states[_key(after)] = after
                queue.append(after)
    if len(states) < limit:
        found = explore(net)
        assert (found.states, found.edges, found.complete) == (len(states), edges, True)
        assert found.bound == max(len(held) for m in states.values() for held in m.values())
    else:
        assert explore(net, max_states=limit).states == limit


def _key(marking: Marking) -> tuple[int, ...]:
    return tuple(map(len, marking.values()))


def test_the_same_seed_gives_the_same_simulation() -> None:
    games = [simulate(philosophers(5), steps=500, seed=seed) for seed in (1, 1, 2)]

    assert games[0] == games[1]
    assert games[0] != games[2]
    assert sum(games[0].firings.values()) == games[0].steps


@pytest.mark.slow
def test_a_large_net_with_few_states_is_explored_in_seconds() -> None:
    """Each firing is looked at with the places it touches, not with all of them."""
    (ring,) = (each for each in hostile() if each.name == "pnml_ring_of_10000")
    net = load_bytes(ring.make(), ring.file).unwrap()
    began = time.process_time()

    space = explore(net)

    assert (space.states, space.edges, space.bound) == (10_000, 10_000, 1)
    assert time.process_time() - began < 15
