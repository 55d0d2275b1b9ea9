"""The states of a session and the allowed transitions between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bascule.core.errors import InvalidState
from bascule.core.sessions import SessionState

PREDECESSORS: Final[Mapping[SessionState, frozenset[SessionState]]] = {
    "starting": frozenset({"stopped", "failed"}),
    "ready": frozenset({"starting", "paused"}),
    "paused": frozenset({"ready"}),
    "stopping": frozenset({"starting", "ready", "paused", "stopping", "stopped", "failed"}),
    "stopped": frozenset({"stopping"}),
    "failed": frozenset({"starting", "ready", "paused"}),
}
"""For each state, the states from which it can be reached. A new session begins in `starting`.
`stopping` can be reached from every state because removal passes through it."""

RUNNING: Final[frozenset[SessionState]] = frozenset({"ready", "paused"})
"""States in which there is a sandbox."""
AT_REST: Final[frozenset[SessionState]] = frozenset({"stopped", "failed"})
"""States in which there is no sandbox, and nothing is under way."""


def invalid_state(state: SessionState, verb: str) -> InvalidState:
    """The error for a request that the session's current state does not allow."""
    hint = {
        "starting": "wait until it is ready",
        "stopping": "wait until it has stopped",
        "paused": "resume it first",
        "stopped": "resume it first",
        "failed": "resume it to try again",
        "ready": "it is running",
    }[state]
    return InvalidState(f"The session is {state}, so it cannot {verb}; {hint}", state=state)
