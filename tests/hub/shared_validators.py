"""Makes the hubs of a test process share the validators of their routes.

For each parameter and answer of each route, FastAPI reads a signature and builds a pydantic
`TypeAdapter`. That is most of the CPU time in which a hub is created, and the tests create more
than a thousand. Both depend only on the declared types, and nothing changes them afterwards.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, Final, get_args

import fastapi._compat.v2 as fields
import fastapi.dependencies.utils as dependencies
from pydantic import TypeAdapter

_adapters: Final[dict[tuple[object, str, str], TypeAdapter[Any]]] = {}
_signatures: Final[dict[FunctionType, inspect.Signature]] = {}
_read_signature: Final[Callable[..., inspect.Signature]] = dependencies._get_signature


def share_validators() -> None:
    """From now on, all hubs of this process share them."""
    fields.TypeAdapter = _shared_adapter  # type: ignore[assignment, attr-defined]
    dependencies._get_signature = _shared_signature


def _shared_adapter(annotated: Any, *, config: Any = None) -> TypeAdapter[Any]:
    declared, *details = get_args(annotated)
    key = declared, repr(details), repr(config)
    if key not in _adapters:
        _adapters[key] = TypeAdapter(annotated, config=config)
    return _adapters[key]


def _shared_signature(call: Callable[..., Any]) -> inspect.Signature:
    """All methods of one name and class have the same; functions in functions may differ."""
    if not isinstance(call, MethodType) or not isinstance(call.__func__, FunctionType):
        return _read_signature(call)
    if call.__func__ not in _signatures:
        _signatures[call.__func__] = _read_signature(call)
    return _signatures[call.__func__]
