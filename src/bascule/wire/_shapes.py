"""The wire layout of the dataclasses of `core`: their fields, and a validator.

A shape is built on first use, once per class, in a third of a millisecond. This module uses
`pydantic_core` directly: importing all of pydantic would cost a sandbox 15 MB and much of its
start time. Validation is strict: `"1"` is not an integer and `1` is not a boolean. Lists become
tuples, since events are immutable.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Literal, NewType, Union, get_args, get_origin, get_type_hints

from pydantic_core import SchemaValidator
from pydantic_core import core_schema as cs

from bascule.core.actions import Action
from bascule.core.observations import Observation

UNION_MEMBER = "|"
"""Marks a union member in the location of a validation error. It is not a field of the event."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The wire layout of one class."""

    names: tuple[str, ...]
    """The fields in `args` or `extras`, in order: all fields except those of the envelope."""
    known: frozenset[str]
    """The same names as a set."""
    everything: Callable[[Any], dict[str, Any]]
    """All fields of an instance by name, including those of the envelope."""
    values: Callable[[Any], tuple[Any, ...]]
    """The values of an instance's `names`, in that order."""
    nested: Mapping[str, frozenset[str]]
    """Fields that hold a dataclass, with the field names of that dataclass."""
    schema: cs.DataclassSchema
    """The schema that `build` validates against. The JSON Schema is generated from it too."""
    build: Callable[[Mapping[str, Any]], Any]
    """Builds an instance from its fields and envelope. Raises pydantic's `ValidationError`."""


def _shape_of(cls: type) -> Shape:
    fields = dataclasses.fields(cls)
    hints = get_type_hints(cls)
    envelope = envelope_names(cls)
    names = tuple(field.name for field in fields if field.name not in envelope)
    schema = _dataclass(cls)
    return Shape(
        names=names,
        known=frozenset(names),
        everything=_dict_getter(tuple(field.name for field in fields)),
        values=_getter(names),
        nested={
            name: frozenset(field.name for field in dataclasses.fields(hints[name]))
            for name in names
            if dataclasses.is_dataclass(hints[name])
        },
        schema=schema,
        build=SchemaValidator(schema).validate_python,
    )


shape_of: Callable[[type], Shape] = cache(_shape_of)


def envelope_names(cls: type) -> frozenset[str]:
    """The fields of `cls` that are in the envelope, not in `args` or `extras`."""
    for base in (Action, Observation):
        if issubclass(cls, base):
            return frozenset(field.name for field in dataclasses.fields(base))
    return frozenset()


def _getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda instance: tuple(getattr(instance, name) for name in names)


def _dict_getter(names: Sequence[str]) -> Callable[[Any], dict[str, Any]]:
    values = _getter(names)
    return lambda instance: dict(zip(names, values(instance), strict=True))


def _dataclass(cls: type) -> cs.DataclassSchema:
    hints = get_type_hints(cls)
    fields = [
        cs.dataclass_field(field.name, _field(field, hints[field.name]))
        for field in dataclasses.fields(cls)
    ]
    return cs.dataclass_schema(
        cls,
        cs.dataclass_args_schema(cls.__name__, fields),
        [field["name"] for field in fields],
        slots=True,
        frozen=True,
    )


def _field(field: dataclasses.Field[Any], hint: Any) -> cs.CoreSchema:
    schema = _NARROWED[field.name] if field.name in _NARROWED else _schema_of(hint)
    if field.default_factory is not MISSING:
        return cs.with_default_schema(schema, default_factory=field.default_factory)
    if field.default is MISSING:
        return schema
    # An unknown security risk is no reason to refuse the action. OpenHands drops it as well.
    on_error: Literal["default", "raise"] = "default" if field.name == "security_risk" else "raise"
    return cs.with_default_schema(schema, default=field.default, on_error=on_error)


_STRING = cs.str_schema(strict=True)

_NARROWED: Mapping[str, cs.CoreSchema] = {
    "id": cs.str_schema(strict=True, min_length=1),
    "timeout": cs.nullable_schema(cs.float_schema(strict=True, gt=0, allow_inf_nan=False)),
    "unknown": cs.any_schema(),
}
"""Fields with a stricter or looser schema than their type implies."""

_SCALARS: Mapping[Any, cs.CoreSchema] = {
    str: _STRING,
    int: cs.int_schema(strict=True),
    float: cs.float_schema(strict=True, allow_inf_nan=False),
    bool: cs.bool_schema(strict=True),
    NoneType: cs.none_schema(),
    Any: cs.any_schema(),
}


def _schema_of(hint: Any) -> cs.CoreSchema:
    """The schema of a type as `core` writes it."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    if isinstance(hint, NewType):
        return _schema_of(hint.__supertype__)
    if dataclasses.is_dataclass(hint):
        assert isinstance(hint, type)
        return _dataclass(hint)
    arguments = get_args(hint)
    match get_origin(hint):
        case origin if origin is Literal:
            return cs.literal_schema(list(arguments))
        case origin if origin in (Union, UnionType):
            return _union([_schema_of(part) for part in arguments if part is not NoneType], hint)
        case origin if origin is Sequence:
            return cs.tuple_schema([_schema_of(arguments[0])], variadic_item_index=0)
        case origin if origin is Mapping:
            return cs.dict_schema(_schema_of(arguments[0]), _schema_of(arguments[1]))
    raise TypeError(f"no wire form for the type {hint!r}")


def _union(parts: list[cs.CoreSchema], hint: Any) -> cs.CoreSchema:
    schema = parts[0] if len(parts) == 1 else _any_of(parts)
    return cs.nullable_schema(schema) if NoneType in get_args(hint) else schema


def _any_of(parts: list[cs.CoreSchema]) -> cs.CoreSchema:
    return cs.union_schema([(part, UNION_MEMBER) for part in parts])
