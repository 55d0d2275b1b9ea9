"""Hypothesis strategies for every kind of event, made from the types of its fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NewType, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from bascule.core.actions import Action, Condensation
from bascule.core.kinds import ACTIONS, OBSERVATIONS
from bascule.core.observations import Observation

EVENTS: tuple[type[Action] | type[Observation], ...] = (*ACTIONS.values(), *OBSERVATIONS.values())
NAMES = [f"{cls.__name__}" for cls in EVENTS]

numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
unknown_fields = st.dictionaries(
    st.text(max_size=5).map(lambda text: f"x_{text}"), json_values, max_size=2
)
event_ids = st.uuids().map(str) | st.text(min_size=1)
timeouts = st.floats(min_value=0, exclude_min=True, allow_infinity=False)

_ENVELOPE: Mapping[str, st.SearchStrategy[Any]] = {
    "id": event_ids,
    "cause": st.none() | event_ids,
    "timeout": st.none() | timeouts,
    "unknown": unknown_fields,
}


def _events(cls: type) -> st.SearchStrategy[Any]:
    """Instances of `cls` as decoding would make them: sequences are tuples."""
    if cls is Condensation:
        return condensations
    hints = get_type_hints(cls)
    fields = {
        field.name: _ENVELOPE.get(field.name, of(hints[field.name]))
        for field in dataclasses.fields(cls)
    }
    return st.builds(lambda values: cls(**values), st.fixed_dictionaries(fields))


events: Callable[[type], st.SearchStrategy[Any]] = cache(_events)


def of(hint: Any) -> st.SearchStrategy[Any]:
    if hint in _SCALARS:
        return _SCALARS[hint]
    if isinstance(hint, NewType):
        return of(hint.__supertype__)
    if dataclasses.is_dataclass(hint):
        assert isinstance(hint, type)
        return events(hint)
    arguments = get_args(hint)
    match get_origin(hint):
        case origin if origin is Literal:
            return st.sampled_from(arguments)
        case origin if origin in (Union, UnionType):
            return st.one_of(*(of(part) for part in arguments))
        case origin if origin is Sequence:
            return st.lists(of(arguments[0]), max_size=3).map(tuple)
        case origin if origin is Mapping:
            return st.dictionaries(of(arguments[0]), of(arguments[1]), max_size=3)
    raise TypeError(f"no strategy for {hint!r}")


_SCALARS: Mapping[Any, st.SearchStrategy[Any]] = {
    str: st.text(),
    int: st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    NoneType: st.none(),
    Any: json_values,
}

_numbers_or_ids = st.integers() | st.text()
condensations = st.builds(
    lambda ids, summary: Condensation(**ids, **summary),
    st.fixed_dictionaries({"forgotten_event_ids": st.lists(_numbers_or_ids).map(tuple)})
    | st.fixed_dictionaries(
        {
            "forgotten_events_start_id": _numbers_or_ids,
            "forgotten_events_end_id": _numbers_or_ids,
        }
    ),
    st.fixed_dictionaries({"summary": st.text(), "summary_offset": st.integers()}) | st.just({}),
)
