"""Replays a trace on its net without running any code."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from bascule.core.errors import TraceMismatch

from .model import Net, PlaceId, Token
from .rule import Marking


@dataclass(frozen=True, slots=True)
class Moment:
    """An event of a trace, and the marking after it."""

    number: int
    event: dict[str, Any]
    marking: Marking


def replay(net: Net, lines: Iterable[str]) -> Iterator[Moment]:
    """Yield the moments of a trace.

    Raises `TraceMismatch` at the first event that is impossible in this net. A trace contains the
    `repr` of values that are not JSON, so these values are compared as text.
    """
    marking: dict[PlaceId, list[Token]] | None = None
    for number, text in enumerate(filter(str.strip, lines), 1):
        event = _parse(text, number)
        kind = event.get("event")
        if kind in ("started", "changed"):
            marking = _marking(net, event, number)
        elif marking is None:
            raise TraceMismatch(f"Line {number}: a trace begins with 'started'", line=number)
        elif kind == "ended":
            _compare(net, marking, event, number)
        else:
            _apply(net, marking, event, number)
        yield Moment(number, event, {place: tuple(held) for place, held in marking.items()})


def _parse(text: str, number: int) -> dict[str, Any]:
    try:
        event = json.loads(text)
    except ValueError as error:
        raise TraceMismatch(f"Line {number} is not JSON: {error}", line=number) from error
    if not isinstance(event, dict):
        raise TraceMismatch(f"Line {number} is not an event", line=number)
    return event


def _marking(net: Net, event: dict[str, Any], number: int) -> dict[PlaceId, list[Token]]:
    marking = event.get("marking") or {}
    _ensure_known(net, marking, number)
    return {place: list(marking.get(place, ())) for place in net.places}


def _apply(
    net: Net, marking: dict[PlaceId, list[Token]], event: dict[str, Any], number: int
) -> None:
    kind, transition = event.get("event"), event.get("transition")
    if transition not in net.transitions:
        raise TraceMismatch(f"Line {number}: there is no transition '{transition}'", line=number)
    was_begun = bool(event.get("wasBegun"))
    consumed, produced = event.get("consumed") or {}, event.get("produced") or {}
    _ensure_known(net, consumed, number)
    _ensure_known(net, produced, number)
    # A firing is one event, `fired`, or two: `begun`, then `fired` or `undone`. The first event of
    # a firing takes the tokens.
    if kind == "begun" or (kind == "fired" and not was_begun):
        _remove(marking, consumed, number)
    if kind == "fired":
        for place, tokens in produced.items():
            marking[place].extend(tokens)
    if kind == "undone" and was_begun:
        for place, tokens in consumed.items():
            marking[place][:0] = tokens


def _remove(
    marking: dict[PlaceId, list[Token]], consumed: dict[PlaceId, list[Token]], number: int
) -> None:
    for place, tokens in consumed.items():
        for token in tokens:
            if token not in marking[place]:
                raise TraceMismatch(
                    f"Line {number}: there is no token {token!r} in '{place}' to take", line=number
                )
            marking[place].remove(token)


def _compare(
    net: Net, marking: dict[PlaceId, list[Token]], event: dict[str, Any], number: int
) -> None:
    if _marking(net, event, number) != marking:
        raise TraceMismatch(
            f"Line {number}: the events of the trace lead to another marking than its end has",
            line=number,
        )


def _ensure_known(net: Net, marking: dict[str, Any], number: int) -> None:
    for place in marking:
        if place not in net.places:
            raise TraceMismatch(f"Line {number}: there is no place '{place}'", line=number)
