"""Traces with OpenTelemetry. This is the only module that imports its API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from opentelemetry import context, trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from bascule.core.tracing import TRACEPARENT, TRACEPARENT_FIELD, SpanKind, TraceSpan, Tracing

_KINDS: Final[Mapping[SpanKind, trace.SpanKind]] = {
    "client": trace.SpanKind.CLIENT,
    "server": trace.SpanKind.SERVER,
    "internal": trace.SpanKind.INTERNAL,
}
_PROPAGATOR: Final = TraceContextTextMapPropagator()


class OpenTelemetryTracing(Tracing):
    """Begins spans with a `TracerProvider`, by default the global one of the program.

    A span without a parent in Bascule is below the current OpenTelemetry span of the program.
    """

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("bascule", tracer_provider=provider)

    def begin(
        self,
        name: str,
        kind: SpanKind,
        *,
        parent: str = "",
        attributes: Mapping[str, str] | None = None,
    ) -> TraceSpan:
        above = context.get_current()
        if traceparent := parent or TRACEPARENT.get():
            above = _PROPAGATOR.extract({TRACEPARENT_FIELD: traceparent}, above)
        return _OpenTelemetrySpan(
            self._tracer.start_span(name, above, kind=_KINDS[kind], attributes=attributes)
        )


class _OpenTelemetrySpan(TraceSpan):
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    @property
    def traceparent(self) -> str:
        named = self._span.get_span_context()
        return f"00-{named.trace_id:032x}-{named.span_id:016x}-{named.trace_flags:02x}"

    def set_outcome(self, outcome: str, *, failed: bool) -> None:
        self._span.set_attribute("bascule.outcome", outcome)
        if failed:
            self._span.set_status(trace.StatusCode.ERROR, outcome)

    def end(self) -> None:
        if self._span.is_recording():
            self._span.end()
