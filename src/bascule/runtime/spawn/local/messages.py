"""Messages between hub and warden: JSON lines, with several requests at a time.

ask      {"id": 1, "do": "start", "with": {…}}        {"id": 1, "do": "cancel"}
answer   {"id": 1, "stage": "…"}*, then {"id": 1, "answer": …} or {"id": 1, "error": {…}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from bascule.core.sessions import (
    WIRE_FILE_LAYOUT,
    Egress,
    RunningSandbox,
    SandboxPlan,
    SessionId,
    SessionLimits,
    Usage,
)

MAX_LINE_BYTES: Final = 8 << 20
"""Maximum bytes of a line."""

_PATH_FIELDS: Final = ("directory", "run_dir", "folder", "hub_socket")


def plan_to_wire(plan: SandboxPlan) -> dict[str, Any]:
    data = asdict(plan)
    data["environment"] = dict(plan.environment)
    data[WIRE_FILE_LAYOUT] = data.pop("file_layout")
    return data | {name: str(data[name]) for name in _PATH_FIELDS if data[name] is not None}


def plan_from_wire(data: Mapping[str, Any]) -> SandboxPlan:
    layout = {"file_layout": data[WIRE_FILE_LAYOUT]}
    fields = {name: value for name, value in data.items() if name != WIRE_FILE_LAYOUT}
    paths = {name: Path(data[name]) for name in _PATH_FIELDS if data[name] is not None}
    parts = {"limits": SessionLimits(**data["limits"]), "egress": egress_from_wire(data["egress"])}
    return SandboxPlan(**{**fields, **layout, **paths, **parts})


def running_from_wire(data: Mapping[str, Any]) -> RunningSandbox:
    return RunningSandbox(
        session_id=SessionId(data["session_id"]), is_paused=data["is_paused"], uid=data["uid"]
    )


def usage_from_wire(data: Mapping[str, Any]) -> Usage:
    return Usage(**data)


def egress_from_wire(data: Mapping[str, Any]) -> Egress:
    return Egress(mode=data["mode"], domains=tuple(data["domains"]))
