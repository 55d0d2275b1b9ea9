"""Exports traces with OpenTelemetry's SDK, which reads its standard variables (`OTEL_*`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bascule.core.extras import missing_extra

if TYPE_CHECKING:
    from bascule.core.tracing import Tracing


@contextmanager
def exported_traces(service: str, *, is_enabled: bool) -> Iterator[Tracing | None]:
    """Export the spans made in the block over OTLP; the last ones when the block ends.

    None if traces are not enabled; then nothing is imported. `service`: the service's name unless
    the variable OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES sets one. Raises `MissingExtra`.
    """
    if not is_enabled:
        yield None
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        raise missing_extra(error) from error
    from bascule.link.otel_tracing import OpenTelemetryTracing

    named = Resource.create({"service.name": service}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=named)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield OpenTelemetryTracing(provider)
    finally:
        provider.shutdown()
