"""Error messages for invalid events, which tell the sender what to fix."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from pydantic_core import ErrorDetails, ValidationError

from bascule.core.errors import InvalidAction, UnknownKind

from ._shapes import UNION_MEMBER

_EXPECTED = {
    "string_type": "a string",
    "string_too_short": "a string that is not empty",
    "int_type": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "an object",
    "dataclass_type": "an object",
}

_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 80
_REPR.maxlevel = 3


def invalid(event: str, field: str, expected: str, value: object) -> InvalidAction:
    """The error for a wrong value. `event` is the kind and the type of the event: `run action`."""
    value_text = short_repr(value)
    return InvalidAction(
        f"{event}: `{field}` must be {expected}, not {value_text}",
        event=event,
        field=field,
        expected=expected,
        value=value_text,
    )


def missing(event: str, field: str) -> InvalidAction:
    return InvalidAction(f"{event}: `{field}` is missing", event=event, field=field)


def unknown_kind(event_type: str, kind: str, known: Iterable[str]) -> UnknownKind:
    """The error for an unknown kind. `event_type`: `action` or `observation`."""
    kinds = sorted(known)
    return UnknownKind(
        f"No {event_type} is called {short_repr(kind)}. Known: {', '.join(kinds)}",
        kind=kind[:80],
        known=kinds,
    )


def faults(error: ValidationError) -> list[ErrorDetails]:
    """The errors that pydantic found."""
    return error.errors(include_url=False)


def from_validation(
    details: Sequence[ErrorDetails], event: str, *, part: str, names: frozenset[str]
) -> InvalidAction:
    """The error for the first of pydantic's errors. `names`: the fields inside `part`."""
    first = details[0]
    location = _location(first)
    field = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    field = f"{part}{field}" if location[0] in names else field[1:]
    if first["type"] == "missing":
        return missing(event, field)
    expected = [_expected(each) for each in details if _location(each) == location]
    return invalid(event, field, " or ".join(expected), first["input"])


def refuse(value: object) -> NoReturn:
    """For `plain`: raises an error for a value that JSON cannot express."""
    raise InvalidAction(f"{short_repr(value)} ({type(value).__name__}) cannot be written as JSON")


def short_repr(value: object) -> str:
    """A short text of `value`, whatever its size."""
    return _REPR.repr(value)


def _location(detail: ErrorDetails) -> list[int | str]:
    # A union reports one error per member, each with an extra step in its location.
    return [step for step in detail["loc"] if step != UNION_MEMBER]


def _expected(detail: ErrorDetails) -> str:
    context: Mapping[str, Any] = detail.get("ctx", {})
    match detail["type"]:
        case "literal_error":
            return str(context["expected"])
        case "greater_than":
            return f"more than {context['gt']:g}"
        case known if known in _EXPECTED:
            return _EXPECTED[known]
        case _:
            return detail["msg"]
