"""Encodes and decodes errors as `{code, message, detail}`.

Decoding maps a code to a class in `bascule.core.errors` only. It never imports a name that a peer
sent.
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

from ._validation_errors import short_repr
from .plain import plain, well_formed

_MAX_CODE: Final = 100
_MAX_MESSAGE: Final = 16_000
"""Maximum characters of a code and of a message from a peer. Longer texts are cut."""


def error_to_wire(error: BasculeError) -> dict[str, Any]:
    """`error` as JSON. Values in `detail` that JSON cannot express become short text."""
    return {
        "code": code_of(error),
        "message": well_formed(error.message),
        "detail": plain(dict(error.detail), _json_fallback),
    }


def error_from_wire(data: object) -> BasculeError:
    """The error that a peer reported, ready to raise. Decoding itself never fails.

    An unknown code gives a `RemoteError` with that code. If `data` does not have the form of an
    error, the result is a `RemoteError` without a code.
    """
    if not isinstance(data, Mapping) or not isinstance(data.get("code"), str):
        return RemoteError(
            f"The peer reported an error in an unknown format: {short_repr(data)}", remote_code=""
        )
    code, message, detail = data["code"][:_MAX_CODE], data.get("message"), data.get("detail")
    error = _empty_error(code)
    # Set afterwards: a key of `detail` may clash with a parameter of the constructor.
    text = message[:_MAX_MESSAGE] if isinstance(message, str) else f"The peer reported {code}"
    error.args = (text,)
    error.message = error.args[0]
    error.detail = dict(detail) if isinstance(detail, Mapping) else {}
    return error


def error_observation(error: BasculeError, cause: EventId | None) -> Error:
    """The observation for an action with the id `cause` that failed with `error`."""
    return Error(content=error.message, error_id=code_of(error), cause=cause)


def code_of(error: BasculeError) -> str:
    """The code that `error` has on the wire. An error from a peer keeps the peer's code."""
    return error.remote_code if isinstance(error, RemoteError) else error.code


def _json_fallback(value: object) -> str:
    return well_formed(str(value)) if isinstance(value, PurePath) else short_repr(value)


def _empty_error(code: str) -> BasculeError:
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
    # `BasculeError` has the same code as `InternalError`; that code decodes to `InternalError`.
    return {cls.code: cls for cls in tree if cls is not BasculeError}
