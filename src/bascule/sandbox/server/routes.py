"""Passes every request to its endpoint and turns errors into responses.

Endpoints other than `/execute_action` and `/alive` are imported on first use, so the server starts
faster.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bascule.core.errors import BasculeError, InternalError
from bascule.core.tracing import Tracing
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.settings import ServerSettings
from bascule.serving.asgi import ClientDisconnected, Message, Receive, Scope, Send, send_json
from bascule.serving.refusals import Refused

from .execute_action import ExecuteAction
from .inflight import InFlight
from .metrics import SandboxMetrics
from .replies import ERRORS
from .system import SystemInfo

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from .endpoints import Endpoints
    from .plugin import ServerPlugin

logger = logging.getLogger(__name__)

_ALIVE = b'{"status":"ok"}'
_ENDPOINTS = f"{__package__}.endpoints"


class SandboxRoutes:
    """The ASGI app behind the guard. It turns every exception of an endpoint into a response."""

    def __init__(
        self,
        sandbox: Sandbox,
        in_flight: InFlight,
        settings: ServerSettings,
        plugin: ServerPlugin | None = None,
        *,
        tracing: Tracing | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._in_flight = in_flight
        self._settings = settings
        self._system = SystemInfo(sandbox.settings.shells.working_dir)
        self._metrics = SandboxMetrics(
            open_shells=lambda: len(sandbox.shells.names()), under_way=lambda: len(in_flight)
        )
        self._execute = ExecuteAction(
            sandbox,
            in_flight=in_flight,
            metrics=self._metrics,
            system=self._system,
            lag=settings.stream_lag,
            tracing=tracing,
        )
        self._endpoints: Endpoints | None = None
        self._loading = threading.Lock()
        self._of_plugin: Sequence[BaseRoute] = ()
        if plugin is not None:
            self._system.on_action = plugin.acted
            self._of_plugin = plugin.open(sandbox, self._last_action)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer(scope, send)
        try:
            await self._dispatch(scope, receive, answer.send)
        except ClientDisconnected:
            pass
        except Refused as refused:
            await answer.fail(refused.error, refused.status)
        except BasculeError as error:
            await answer.fail(error)
        except Exception:
            logger.exception("%s %s failed", scope.get("method", "WebSocket"), scope["path"])
            await answer.fail(InternalError("The action server failed; its log has the cause"))

    def endpoints(self) -> Endpoints:
        """Return all endpoints, and import them on first use. Blocks the calling thread, because
        the import reads modules from disk."""
        with self._loading:
            if self._endpoints is None:
                from .endpoints import Endpoints

                self._endpoints = Endpoints(
                    self._sandbox,
                    in_flight=self._in_flight,
                    settings=self._settings,
                    execute=self._execute,
                    metrics=self._metrics,
                    system=self._system,
                    more=self._of_plugin,
                )
            return self._endpoints

    def finish_streams(self) -> None:
        if self._endpoints is not None:
            self._endpoints.finish_streams()

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope.get("method"), scope["path"]:
            case "POST", "/execute_action":
                await self._execute(scope, receive, send)
            case "GET", "/alive":
                await send_json(send, _ALIVE)
            case _:
                await (self._endpoints or await self._load_endpoints())(scope, receive, send)

    async def _load_endpoints(self) -> Endpoints:
        """Return all endpoints. A thread imports them, so that the event loop never blocks.

        In a session the endpoints are imported already, so a thread would only cost memory.
        """
        if _ENDPOINTS in sys.modules:
            return self.endpoints()
        return await self._sandbox.in_thread(self.endpoints)

    def _last_action(self) -> float | None:
        return time.time() if len(self._in_flight) else self._system.acted_at


class _Answer:
    """Sends a response and records whether it has begun; an error can only be sent before that."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._has_begun = False

    async def send(self, message: Message) -> None:
        self._has_begun = True
        await self._send(message)

    async def fail(self, error: BasculeError, status: int | None = None) -> None:
        if not self._has_begun:
            await ERRORS.send(self._scope, self._send, error, status)
