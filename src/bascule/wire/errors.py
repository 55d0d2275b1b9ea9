"""Encodes and decodes errors as `{code, message, detail}`.

A code stands for its class in `bascule.core.errors` and for nothing else: what a peer sends is
never imported by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import PurePath
from typing import Any, Final

from bascule.core import errors
from bascule.core.errors import BasculeError, RemoteError
from bascule.core.identity import EventId
from bascule.core.observations import Error

from ._validation_errors import shortened
from .plain import plain, well_formed

_CODE: Final = 100
_MESSAGE: Final = 16_000
"""Characters of a code and of a message that are taken from a peer."""


def error_to_wire(error: BasculeError) -> dict[str, Any]:
    """`error` as JSON. Values in `detail` that JSON cannot express become short text."""
    return {
        "code": code_of(error),
        "message": well_formed(error.message),
        "detail": plain(dict(error.detail), _stand_in),
    }


def error_from_wire(data: object) -> BasculeError:
    """The error a peer reported, ready to raise; never fails itself.

    A code this version does not know makes a `RemoteError` that carries it, and so does an
    answer that has not the shape of an error at all.
    """
    if not isinstance(data, Mapping) or not isinstance(data.get("code"), str):
        shown = shortened(data)
        return RemoteError(f"The peer reported an error in no known form: {shown}", remote_code="")
    code, message, detail = data["code"][:_CODE], data.get("message"), data.get("detail")
    error = _blank(code)
    # Not by the constructor: detail may hold any name, also those of its own parameters.
    said = message[:_MESSAGE] if isinstance(message, str) else f"The peer reported {code}"
    error.args = (said,)
    error.message = error.args[0]
    error.detail = dict(detail) if isinstance(detail, Mapping) else {}
    return error


def error_observation(error: BasculeError, cause: EventId | None) -> Error:
    """The observation for the caller of action `cause` when it failed with `error`."""
    return Error(content=error.message, error_id=code_of(error), cause=cause)


def code_of(error: BasculeError) -> str:
    """The code that `error` has on the wire. An error from a peer keeps the peer's code."""
    return error.remote_code if isinstance(error, RemoteError) else error.code


def _stand_in(value: object) -> str:
    return well_formed(str(value)) if isinstance(value, PurePath) else shortened(value)


def _blank(code: str) -> BasculeError:
    cls = _classes().get(code, RemoteError)
    if cls is RemoteError:
        return RemoteError("", remote_code=code)
    return cls("")


@cache
def _classes() -> Mapping[str, type[BasculeError]]:
    tree = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, BasculeError)
    ]
    # The root shares its code with `InternalError`, its meaning when nobody was more precise.
    return {cls.code: cls for cls in tree if cls is not BasculeError}
