"""Rules for idle sessions: no keystroke, no action, no CPU use. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bascule.hub.settings import HubSettings

from .rows import SessionRow
from .sandbox_messages import SandboxActivity


@dataclass(frozen=True, slots=True)
class Sample:
    """The CPU time a session had used at some moment."""

    time: float
    cpu_seconds: float


def last_active(
    row: SessionRow,
    activity: SandboxActivity,
    before: Sample | None,
    now: Sample,
    *,
    busy_from: float,
) -> float:
    """When the session was last active. `busy_from`: share of a core that counts as activity.

    Open tabs, keep-alives and idle servers do not count as activity.
    """
    times = [row.last_active, activity.last_action or 0, activity.last_keystroke or 0]
    if before is not None and now.time > before.time:
        used = (now.cpu_seconds - before.cpu_seconds) / (now.time - before.time)
        if used >= busy_from:
            times.append(now.time)
    return min(max(times), now.time)


def due(row: SessionRow, now: float, settings: HubSettings) -> Literal["pause", "stop"] | None:
    """Whether the session has been idle for long enough to be paused or stopped now."""
    if row.state == "ready" and settings.idle_pause is not None:
        return "pause" if now - row.last_active >= settings.idle_pause else None
    if row.state == "paused" and settings.idle_stop is not None:
        return "stop" if now - row.updated >= settings.idle_stop else None
    return None
