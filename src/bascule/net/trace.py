"""The events of a run, and the trace: the same events as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, Any, ClassVar, TypeAlias

from .model import TransitionId
from .rule import Marking, Produced


class RunOutcome(StrEnum):
    """How a run ended. `exit_status` is what a process that ran it exits with."""

    COMPLETED = "completed"
    """At rest, and nothing is left that waits to go on."""
    ERROR = "error"
    DEADLOCK = "deadlock"
    """At rest, with tokens that no transition can take."""
    PENDING = "pending"
    """Time was up while an operation was still under way."""
    LIMIT = "limit"
    """As many firings as were allowed, or time was up."""
    CANCELLED = "cancelled"

    @property
    def exit_status(self) -> int:
        return _STATUS[self]


_STATUS = {
    RunOutcome.COMPLETED: 0,
    RunOutcome.ERROR: 1,
    RunOutcome.DEADLOCK: 3,
    RunOutcome.PENDING: 4,
    RunOutcome.LIMIT: 5,
    RunOutcome.CANCELLED: 130,
}


@dataclass(frozen=True, slots=True)
class Started:
    event: ClassVar[str] = "started"
    net: str
    file: str
    marking: Marking


@dataclass(frozen=True, slots=True)
class Begun:
    """An async firing took its tokens and runs; `Fired` or `Undone` follows."""

    event: ClassVar[str] = "begun"
    firing: int
    transition: TransitionId
    consumed: Produced


@dataclass(frozen=True, slots=True)
class Fired:
    event: ClassVar[str] = "fired"
    firing: int
    transition: TransitionId
    consumed: Produced
    produced: Produced
    was_begun: bool = False
    """`consumed` was taken when it began."""


@dataclass(frozen=True, slots=True)
class Undone:
    """A firing that failed or was cancelled: its tokens are back."""

    event: ClassVar[str] = "undone"
    firing: int
    transition: TransitionId
    consumed: Produced
    error: str
    was_begun: bool = False


@dataclass(frozen=True, slots=True)
class Changed:
    """The marking was changed while the run was halted."""

    event: ClassVar[str] = "changed"
    marking: Marking


@dataclass(frozen=True, slots=True)
class Ended:
    event: ClassVar[str] = "ended"
    outcome: RunOutcome
    firings: int
    marking: Marking
    error: str = ""


Event: TypeAlias = Started | Begun | Fired | Undone | Changed | Ended
Listener: TypeAlias = Callable[[Event], None]


def as_json(event: Event) -> dict[str, Any]:
    """The event as it stands in a trace."""
    shape: dict[str, Any] = {"event": event.event}
    for name in event.__slots__:
        value = getattr(event, name)
        if name in ("consumed", "produced"):
            value = {place: list(tokens) for place, tokens in _merged(value).items()}
        elif name == "marking":
            value = shown(value)
        shape[_NAMES.get(name, name)] = value
    return shape


def line(event: Event) -> str:
    """One line of a trace. Values that are not JSON are written as their `repr`."""
    return json.dumps(as_json(event), ensure_ascii=False, default=repr)


def writing(file: IO[str]) -> Listener:
    """Writes a trace, each line at once, so that it can be read while the net runs."""

    def write(event: Event) -> None:
        print(line(event), file=file, flush=True)

    return write


def shown(marking: Marking) -> dict[str, list[Any]]:
    """The places that hold tokens."""
    return {place: list(tokens) for place, tokens in marking.items() if tokens}


_NAMES: Mapping[str, str] = {"was_begun": "wasBegun"}


def _merged(tokens: Produced) -> dict[str, list[Any]]:
    merged: dict[str, list[Any]] = {}
    for place, some in tokens:
        merged.setdefault(place, []).extend(some)
    return merged
