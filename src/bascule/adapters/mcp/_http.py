"""MCP over streamable HTTP, for clients that the caller has authenticated."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from anyio import BrokenResourceError, ClosedResourceError
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from bascule.core.contracts import Closable
from bascule.hub import Identity
from bascule.hub.replies import Receive, Scope, Send

from ._server import make_server
from ._targets import ClientTarget, ToolTargets

Principal = tuple[Identity, ClientTarget]
"""Who asks, and where."""

_PRINCIPAL: Final = "bascule.mcp.principal"
_BODY: Final = 32 << 20
"""Bytes of a request; the hub's guard has a limit of its own."""
_IDLE: Final = 3600.0
"""Seconds after which a client that never said goodbye is forgotten."""
_CLIENTS: Final = 1000


class Served(Closable):
    """Serves clients from `start` to `aclose`, which closes every client's state."""

    def __init__(self, targets: Callable[[Identity, ClientTarget], ToolTargets]) -> None:
        def places_for(request: Any) -> ToolTargets:
            return targets(*request.scope[_PRINCIPAL])

        logging.getLogger("mcp.server.streamable_http").addFilter(_is_no_goodbye)
        self._manager = StreamableHTTPSessionManager(
            make_server(places_for),
            max_request_body_size=_BODY,
            session_idle_timeout=_IDLE,
            max_sessions=_CLIENTS,
        )
        self._started = asyncio.Event()
        self._stopped = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """The library's task group wants to be left by the task that entered it."""
        self._task = asyncio.create_task(self._run())
        await self._started.wait()

    async def answer(
        self, scope: Scope, receive: Receive, send: Send, *, principal: Principal
    ) -> None:
        """A client's number is good only together with the token and the address it was given
        to."""
        identity, at = principal
        scope[_PRINCIPAL] = principal
        name = f"{identity.scope}:{identity.owner}:{identity.name}:{at.session}:{at.window}"
        token = AccessToken(token="", client_id=name, scopes=[])
        scope["user"] = AuthenticatedUser(token)
        await self._manager.handle_request(scope, receive, send)

    async def aclose(self) -> None:
        self._stopped.set()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        async with self._manager.run():
            self._started.set()
            await self._stopped.wait()


def _is_no_goodbye(record: logging.LogRecord) -> bool:
    """The library logs a traceback when a client leaves: it closes a stream that it still reads.
    A hub of `bascule up` logs to the terminal with the prompt."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, ClosedResourceError | BrokenResourceError)
