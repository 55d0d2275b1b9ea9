"""The decorator of the classes of actions and observations, and their common base."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

_Class = TypeVar("_Class")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def event_class(*, kw_only: bool = False) -> Callable[[type[_Class]], type[_Class]]:
    """Make a subclass of `EventBase` a frozen dataclass with slots.

    A dataclass compiles its own `__eq__`, `__hash__` and `__repr__`, which is a third of the time
    that a process needs to load all kinds of events. These classes inherit those of `EventBase`.
    """
    return dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=kw_only)


class EventBase:
    """An action or observation. It equals another one of the same class with equal fields."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return _values(self) == _values(other)

    def __hash__(self) -> int:
        return hash(_values(self))

    def __repr__(self) -> str:
        values = zip(fields(self), _values(self), strict=True)  # type: ignore[arg-type]
        shown = ", ".join(f"{each.name}={value!r}" for each, value in values)
        return f"{type(self).__qualname__}({shown})"


def _values(event: Any) -> tuple[Any, ...]:
    return tuple(getattr(event, each.name) for each in fields(event))
