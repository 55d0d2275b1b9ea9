"""Nets of any size whose state spaces are known by formula."""

from __future__ import annotations

from collections.abc import Iterable

from bascule.net.model import Arc, ArcKind, Net, Place, PlaceId, Span, Transition, TransitionId

_NOWHERE = Span("generated", 1, 1, 1, 1)


def build(
    id: str,
    places: dict[str, int],
    arcs: Iterable[tuple[str, str] | tuple[str, str, int] | tuple[str, str, int, ArcKind]],
    transitions: Iterable[str] = (),
) -> Net:
    """A net of plain tokens. Every end of an arc that is not in `places` is a transition."""
    drawn = []
    named = dict.fromkeys(transitions)
    for number, (source, target, *rest) in enumerate(arcs):
        weight = rest[0] if rest else 1
        kind = rest[1] if len(rest) > 1 else ArcKind.NORMAL
        assert isinstance(weight, int)
        assert isinstance(kind, ArcKind)
        drawn.append(Arc(f"a{number}", source, target, _NOWHERE, weight, kind))
        named |= dict.fromkeys(end for end in (source, target) if end not in places)
    return Net(
        id=id,
        file="generated",
        places={
            PlaceId(name): Place(PlaceId(name), _NOWHERE, initial=(None,) * count)
            for name, count in places.items()
        },
        transitions={
            TransitionId(name): Transition(TransitionId(name), _NOWHERE) for name in named
        },
        arcs=tuple(drawn),
    )


def philosophers(n: int) -> Net:
    """Each philosopher thinks, takes one fork and then the other in either order, eats, and puts
    both down.

    3**n states (243 for 5), of which two are deadlocks: all hold their left fork, or all hold their
    right fork.
    """
    places: dict[str, int] = {}
    arcs: list[tuple[str, str]] = []
    for i in range(n):
        places |= {f"think{i}": 1, f"left{i}": 0, f"right{i}": 0, f"eat{i}": 0, f"fork{i}": 1}
    for i in range(n):
        mine, next_ = f"fork{i}", f"fork{(i + 1) % n}"
        arcs += [(f"think{i}", f"l{i}"), (mine, f"l{i}"), (f"l{i}", f"left{i}")]
        arcs += [(f"think{i}", f"r{i}"), (next_, f"r{i}"), (f"r{i}", f"right{i}")]
        arcs += [(f"left{i}", f"lr{i}"), (next_, f"lr{i}"), (f"lr{i}", f"eat{i}")]
        arcs += [(f"right{i}", f"rl{i}"), (mine, f"rl{i}"), (f"rl{i}", f"eat{i}")]
        arcs += [(f"eat{i}", f"done{i}"), (f"done{i}", f"think{i}")]
        arcs += [(f"done{i}", mine), (f"done{i}", next_)]
    return build(f"philosophers-{n}", places, arcs)


def ring(places: int, tokens: int) -> Net:
    """Tokens that move round a ring: C(tokens + places - 1, places - 1) states, no deadlock."""
    names = [f"p{i}" for i in range(places)]
    marking = {name: tokens if name == "p0" else 0 for name in names}
    arcs = []
    for i in range(places):
        arcs += [(names[i], f"t{i}"), (f"t{i}", names[(i + 1) % places])]
    return build(f"ring-{places}-{tokens}", marking, arcs)


def switches(n: int) -> Net:
    """n independent switches that go on and off: 2**n states, n * 2**n edges."""
    marking: dict[str, int] = {}
    arcs: list[tuple[str, str]] = []
    for i in range(n):
        marking |= {f"off{i}": 1, f"on{i}": 0}
        arcs += [(f"off{i}", f"up{i}"), (f"up{i}", f"on{i}")]
        arcs += [(f"on{i}", f"down{i}"), (f"down{i}", f"off{i}")]
    return build(f"switches-{n}", marking, arcs)


def forks(n: int, length: int) -> Net:
    """A start, n branches of `length` steps, and an end: (length + 1)**n + 2 states, one deadlock.

    The deadlock is the end, where all branches have joined.
    """
    marking = {"start": 1, "end": 0}
    arcs: list[tuple[str, str]] = [("start", "fork"), ("join", "end")]
    for i in range(n):
        marking |= {f"b{i}_{j}": 0 for j in range(length + 1)}
        arcs += [("fork", f"b{i}_0"), (f"b{i}_{length}", "join")]
        for j in range(length):
            arcs += [(f"b{i}_{j}", f"s{i}_{j}"), (f"s{i}_{j}", f"b{i}_{j + 1}")]
    return build(f"forks-{n}-{length}", marking, arcs)


def buffer(capacity: int) -> Net:
    """A producer that an inhibitor arc stops at `capacity`, and a consumer.

    capacity + 1 states, 2 * capacity edges, no deadlock.
    """
    return build(
        f"buffer-{capacity}",
        {"store": 0},
        [
            ("produce", "store"),
            ("store", "produce", capacity, ArcKind.INHIBITOR),
            ("store", "consume"),
        ],
    )


def fountain() -> Net:
    """A transition without inputs: it can always fire, and the tokens are unbounded."""
    return build("fountain", {"pool": 0}, [("flow", "pool")])
