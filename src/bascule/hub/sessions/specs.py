"""Session specs as JSON, for the store and for responses, without the values of secrets."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from bascule.core.sessions import WIRE_FILE_LAYOUT, SessionSpec


def spec_to_json(spec: SessionSpec) -> dict[str, Any]:
    """The spec as JSON, with only the names of secrets."""
    value = asdict(spec)
    value["secrets"] = dict.fromkeys(spec.secrets, "")
    value["egress"]["domains"] = list(spec.egress.domains)
    value["apps"] = list(value["apps"])
    value[WIRE_FILE_LAYOUT] = value.pop("file_layout")
    if not spec.window_asks:
        # Earlier versions did not have this field, and a request's hash includes all fields. A
        # request that is repeated after an update must still have the same hash.
        del value["window_asks"]
    for name in ("labels", "expiry"):  # for the same reason
        if not value[name]:
            del value[name]
    return value


def spec_from_json(value: object) -> SessionSpec:
    if isinstance(value, dict) and WIRE_FILE_LAYOUT in value:
        value = {**value, "file_layout": value[WIRE_FILE_LAYOUT]}
    spec = _adapter().validate_python(value)
    egress = replace(spec.egress, domains=tuple(spec.egress.domains))
    return replace(spec, egress=egress, apps=tuple(spec.apps))


@cache
def _adapter() -> TypeAdapter[SessionSpec]:
    return TypeAdapter(SessionSpec)
