"""The parts of uvicorn that Bascule uses; the only module that imports uvicorn.

Most are internal to uvicorn and may change with any release, so `pyproject.toml` pins its exact
version. To upgrade, change the pin there and in `constraints.txt`, and run `tests/serving`. The
tests name every entry of `RELIED_ON` that no longer exists.
"""

from __future__ import annotations

from typing import Final

from uvicorn import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

__all__ = [
    "RELIED_ON",
    "STATUS_LINE",
    "Config",
    "FlowControl",
    "HttpToolsProtocol",
    "RequestResponseCycle",
    "ServerState",
    "WebSocketsSansIOProtocol",
]

RELIED_ON: Final[tuple[tuple[type, str, str], ...]] = (
    # `Connection`, and `ClientConnection` of the hub's proxy.
    (
        *(HttpToolsProtocol, "overridden to limit a request's head and body"),
        "on_message_begin on_header on_headers_complete on_message_complete",
    ),
    (HttpToolsProtocol, "overridden to answer errors with JSON", "send_400_response"),
    (
        *(HttpToolsProtocol, "overridden to separate proxied requests from those for the app"),
        "_start_asgi_task on_response_complete _should_upgrade handle_websocket_upgrade",
    ),
    (
        *(HttpToolsProtocol, "used to close idle connections"),
        "timeout_keep_alive timeout_keep_alive_task timeout_keep_alive_handler",
    ),
    (HttpToolsProtocol, "called when data arrives", "_unset_keepalive_if_required"),
    (HttpToolsProtocol, "used for a graceful stop", "shutdown"),
    (
        *(HttpToolsProtocol, "read while a request is parsed"),
        "parser scope headers url client expect_100_continue",
    ),
    (
        *(HttpToolsProtocol, "used to write, to pause and to keep the order of requests"),
        "transport flow cycle pipeline app loop",
    ),
    (HttpToolsProtocol, "used to keep invalid requests out of the log", "logger access_logger"),
    (
        *(FlowControl, "used to pause reading, and to detect a disconnect"),
        "pause_reading resume_reading read_paused write_paused",
    ),
    # `Exchange` of the hub's proxy, which replaces a cycle.
    (RequestResponseCycle, "overridden to forward a request to a session", "run_asgi"),
    (RequestResponseCycle, "called for the request's body", "receive"),
    (
        *(RequestResponseCycle, "kept up to date, since the connection depends on it"),
        "response_started response_complete keep_alive disconnected waiting_for_100_continue",
    ),
    (RequestResponseCycle, "used to wait and to finish", "message_event on_response flow"),
    # `WebSocket`.
    (WebSocketsSansIOProtocol, "used to keep invalid requests out of the log", "logger conn"),
    (
        *(WebSocketsSansIOProtocol, "used because uvicorn logs a refused handshake as an error"),
        "send handshake_complete close_sent",
    ),
    (WebSocketsSansIOProtocol, "used for a graceful stop", "shutdown transport"),
    # `Listener`.
    (ServerState, "used for a graceful stop and to limit connections", "connections tasks"),
)
"""(Class, use, attribute names); without constructors and the methods of `asyncio.Protocol`."""
