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
    """How a run ended. `exit_status` is the exit status of a process that ran the net."""

    COMPLETED = "completed"
    """Nothing can fire, and the net has completed: see `Net.is_completed`."""
    ERROR = "error"
    DEADLOCK = "deadlock"
    """Nothing can fire, but the net has not completed."""
    PENDING = "pending"
    """The timeout expired before an async firing finished."""
    LIMIT = "limit"
    """The limit of firings or tokens was reached, or the timeout expired."""
    CANCELLED = "cancelled"

    @property
    def exit_status(self) -> int:
        return _EXIT_STATUSES[self]


_EXIT_STATUSES = {
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
    """Whether a `Begun` event has already taken the tokens in `consumed`."""


@dataclass(frozen=True, slots=True)
class Undone:
    """A firing failed or was cancelled; its tokens were put back."""

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
    """The event as a trace contains it."""
    shape: dict[str, Any] = {"event": event.event}
    for name in event.__slots__:
        value = getattr(event, name)
        if name in ("consumed", "produced"):
            value = {place: list(tokens) for place, tokens in _merge_tokens(value).items()}
        elif name == "marking":
            value = tokens_by_place(value)
        shape[_JSON_NAMES.get(name, name)] = value
    return shape


def line(event: Event) -> str:
    """One line of a trace. Values that are not JSON are written as their `repr`."""
    return json.dumps(as_json(event), ensure_ascii=False, default=repr)


def trace_writer(file: IO[str]) -> Listener:
    """A listener that writes a trace and flushes each line, so that the trace can be read
    meanwhile."""

    def write(event: Event) -> None:
        print(line(event), file=file, flush=True)

    return write


def tokens_by_place(marking: Marking) -> dict[str, list[Any]]:
    """The tokens by place, without empty places."""
    return {place: list(tokens) for place, tokens in marking.items() if tokens}


_JSON_NAMES: Mapping[str, str] = {"was_begun": "wasBegun"}


def _merge_tokens(tokens: Produced) -> dict[str, list[Any]]:
    merged: dict[str, list[Any]] = {}
    for place, some in tokens:
        merged.setdefault(place, []).extend(some)
    return merged
