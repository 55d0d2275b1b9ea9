"""The spans of one action for a window: in the hub, and on the way to the window and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bascule.core.kinds import ACTIONS, OBSERVATIONS
from bascule.core.tracing import TRACEPARENT_FIELD, TraceSpan, Tracing, valid_traceparent


class ActionTrace:
    """Two spans: `hub`, which includes the wait for earlier actions and the resume of a session,
    and `window` below it, from sending the action to the window until it answers.

    They end with the action, which another task reports. So they are not the current spans of any
    task.
    """

    def __init__(self, tracing: Tracing, event: Mapping[str, Any]) -> None:
        self._tracing = tracing
        kind = event.get("action")
        self._kind = kind if isinstance(kind, str) and kind in ACTIONS else "other"
        parent = valid_traceparent(event.get(TRACEPARENT_FIELD))
        self._hub = tracing.begin(
            f"hub {self._kind}",
            "server" if parent else "internal",
            parent=parent,
            attributes={"bascule.action": self._kind},
        )
        self._window: TraceSpan | None = None

    def begin_window(self, window_id: str) -> str:
        """Begin the span of the window; returns its `traceparent`."""
        self._window = self._tracing.begin(
            f"window {self._kind}",
            "client",
            parent=self._hub.traceparent,
            attributes={"bascule.action": self._kind, "bascule.window": window_id},
        )
        return self._window.traceparent

    def end(self, outcome: str) -> None:
        """`outcome`: the observation's kind, or the error's code."""
        for span in (self._window, self._hub):
            if span is not None:
                span.set_outcome(outcome, failed=outcome not in OBSERVATIONS)
                span.end()
