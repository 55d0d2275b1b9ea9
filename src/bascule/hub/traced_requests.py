"""Makes a span of each traced request to the hub's REST API."""

from __future__ import annotations

from bascule.core.tracing import TRACEPARENT_FIELD, TraceSpan, Tracing, valid_traceparent
from bascule.serving.asgi import App, Message, Receive, Scope, Send

_HEADER = TRACEPARENT_FIELD.encode()


def traced(app: App, tracing: Tracing | None) -> App:
    """`app` with a span for each HTTP request that has a valid `traceparent`. Without `tracing`,
    `app` itself."""
    if tracing is None:
        return app

    async def trace(scope: Scope, receive: Receive, send: Send) -> None:
        parent = _parent_of(scope)
        if not parent:
            await app(scope, receive, send)
            return
        attributes = {"http.request.method": scope["method"]}
        with tracing.span(
            f"hub {scope['method']}", "server", parent=parent, attributes=attributes
        ) as span:

            async def note_status(message: Message) -> None:
                if message["type"] == "http.response.start":
                    _set_status(span, message["status"])
                await send(message)

            await app(scope, receive, note_status)

    return trace


def _parent_of(scope: Scope) -> str:
    if scope["type"] != "http":
        return ""
    value = next((value for name, value in scope["headers"] if name == _HEADER), b"")
    return valid_traceparent(value.decode("latin-1"))


def _set_status(span: TraceSpan, status: int) -> None:
    span.set_outcome(str(status), failed=status >= 500)
