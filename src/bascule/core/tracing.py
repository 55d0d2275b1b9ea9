"""The contract for traces: which spans an action passes through, from its client to its execution.

Without a `Tracing`, no span is made. The variable `TRACEPARENT` connects the spans of one process:
whoever sends a request or message in this context adds its value, in the format of W3C Trace
Context (https://www.w3.org/TR/trace-context/).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from .observations import Observation  # not at run time: it loads all kinds

TRACEPARENT_FIELD: Final = "traceparent"
"""Name of the HTTP header, and of the field in actions that are sent to windows."""
TRACEPARENT: Final[ContextVar[str]] = ContextVar("TRACEPARENT", default="")
"""The `traceparent` of the current span; empty outside spans."""

_VALID: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")

SpanKind = Literal["client", "server", "internal"]


class TraceSpan(ABC):
    """A span that has begun. Whoever began it ends it."""

    @property
    @abstractmethod
    def traceparent(self) -> str:
        """Names this span as the parent of others."""

    @abstractmethod
    def set_outcome(self, outcome: str, *, failed: bool) -> None:
        """Add the observation's kind, or the error's code."""

    def set_observation(self, observation: Observation) -> None:
        """Add the outcome of an action."""
        failed = observation.kind == "error"
        outcome = str(getattr(observation, "error_id", "")) if failed else observation.kind
        self.set_outcome(outcome, failed=failed)

    @abstractmethod
    def end(self) -> None:
        """End the span now. Further calls have no effect."""


class Tracing(ABC):
    """Begins spans. Cheap enough for every action, and safe for use by several threads."""

    @abstractmethod
    def begin(
        self,
        name: str,
        kind: SpanKind,
        *,
        parent: str = "",
        attributes: Mapping[str, str] | None = None,
    ) -> TraceSpan:
        """Begin a span below `parent`, a `traceparent`. Empty: below the current span, if any."""

    @contextmanager
    def span(
        self,
        name: str,
        kind: SpanKind,
        *,
        parent: str = "",
        attributes: Mapping[str, str] | None = None,
    ) -> Iterator[TraceSpan]:
        """A span around the block. It is the current span of the block. An exception marks it as
        failed."""
        span = self.begin(name, kind, parent=parent, attributes=attributes)
        before = TRACEPARENT.set(span.traceparent)
        try:
            yield span
        except BaseException as error:
            span.set_outcome(getattr(error, "code", type(error).__name__), failed=True)
            raise
        finally:
            TRACEPARENT.reset(before)
            span.end()


def valid_traceparent(value: object) -> str:
    """`value` if it is a `traceparent`, else an empty string. Senders are not trusted."""
    return value if isinstance(value, str) and _VALID.fullmatch(value) else ""
