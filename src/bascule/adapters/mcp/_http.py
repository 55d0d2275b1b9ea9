"""MCP over streamable HTTP, for clients that the caller has authenticated."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from anyio import BrokenResourceError, ClosedResourceError
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from bascule.core.contracts import Closable
from bascule.hub import Identity
from bascule.hub.disconnects import CALLER_LEFT
from bascule.serving.asgi import Receive, Scope, Send

from ._server import make_server
from ._targets import ClientTarget, ToolTargets

Principal = tuple[Identity, ClientTarget]
"""The identity of a client, and the target in its URL."""

_PRINCIPAL: Final = "bascule.mcp.principal"
_ENDED: Final = "bascule.mcp.ended"
"""Key of the ASGI scope: an event that is set when the HTTP request has ended."""
_MAX_BODY_BYTES: Final = 32 << 20
"""Maximum bytes of a request. The hub has its own limit as well."""
_IDLE_SECONDS: Final = 3600.0
"""Seconds without a request after which a client's state is closed."""
_MAX_CLIENTS: Final = 1000


class McpHttpServer(Closable):
    """Serves clients from `start` to `aclose`, which closes every client's state."""

    def __init__(self, targets: Callable[[Identity, ClientTarget], ToolTargets]) -> None:
        def targets_for(request: Any) -> ToolTargets:
            return targets(*request.scope[_PRINCIPAL])

        logging.getLogger("mcp.server.streamable_http").addFilter(_is_not_a_disconnect)
        self._manager = StreamableHTTPSessionManager(
            make_server(targets_for, acting_for=_acting_for),
            max_request_body_size=_MAX_BODY_BYTES,
            session_idle_timeout=_IDLE_SECONDS,
            max_sessions=_MAX_CLIENTS,
        )
        self._started = asyncio.Event()
        self._stopped = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start a task that serves clients. The MCP library's task group must be entered and left
        by the same task."""
        self._task = asyncio.create_task(self._run())
        await self._started.wait()

    async def answer(
        self, scope: Scope, receive: Receive, send: Send, *, principal: Principal
    ) -> None:
        """Serve one HTTP request.

        The library ties an MCP session id to `scope["user"]`, so a client can use the id only with
        the same token and URL.
        """
        identity, target = principal
        scope[_PRINCIPAL] = principal
        name = f"{identity.scope}:{identity.owner}:{identity.name}:{target.session}:{target.window}"
        token = AccessToken(token="", client_id=name, scopes=[])
        scope["user"] = AuthenticatedUser(token)
        ended = scope[_ENDED] = asyncio.Event()
        try:
            await self._manager.handle_request(scope, receive, send)
        finally:
            # A tool that still runs cannot return its result: its client has disconnected.
            ended.set()

    async def aclose(self) -> None:
        self._stopped.set()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        async with self._manager.run():
            self._started.set()
            await self._stopped.wait()


@contextmanager
def _acting_for(request: Any) -> Iterator[None]:
    """Let windows withdraw the questions of a tool whose client disconnects."""
    before = CALLER_LEFT.set(request.scope[_ENDED])
    try:
        yield
    finally:
        CALLER_LEFT.reset(before)


def _is_not_a_disconnect(record: logging.LogRecord) -> bool:
    """A log filter that drops the traceback which the MCP library logs when a client disconnects.
    `bascule up` logs to the terminal of the user, where that traceback would be noise."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, ClosedResourceError | BrokenResourceError)
