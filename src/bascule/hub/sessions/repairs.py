"""Finds the repairs that make session rows and running sandboxes agree.

Pure rules; `Reconciler` applies them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from bascule.core.sessions import RunningSandbox, SessionId

from .rows import SessionRow

RepairKind = Literal["remove", "start", "stop", "fail", "adopt", "end"]
"""remove, start, stop: continue an interrupted removal, start or stop. fail: the sandbox is gone.
adopt: the sandbox runs, so watch it. end: end a sandbox that no session needs."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair that one session needs."""

    session_id: SessionId
    repair: RepairKind


def repairs(
    rows: Iterable[SessionRow],
    running: Mapping[SessionId, RunningSandbox],
    busy: Collection[SessionId],
) -> list[Repair]:
    """The repairs needed now. Sessions in `busy` are skipped: another operation is under way."""
    known = {row.id: row for row in rows}
    needed = [
        Repair(row.id, repair)
        for row in known.values()
        if row.id not in busy and (repair := _needed_repair(row, row.id in running)) is not None
    ]
    strays = [each for each in running if each not in known and each not in busy]
    return needed + [Repair(each, "end") for each in strays]


def _needed_repair(row: SessionRow, is_running: bool) -> RepairKind | None:
    if row.is_being_removed:
        return "remove"
    match row.state:
        case "starting":
            return "start"
        case "stopping":
            return "stop"
        case "ready" | "paused":
            return "adopt" if is_running else "fail"
        case "stopped" | "failed":
            return "end" if is_running else None
