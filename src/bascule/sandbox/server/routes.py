"""Every endpoint of the action server, and the responses for errors they raise.

docs/protocol.md has the words for users; a test holds it to this table.
"""

from __future__ import annotations

import logging
import time

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router

import bascule
from bascule.core.errors import BasculeError, InternalError, InvalidRequest
from bascule.core.identity import EventId
from bascule.sandbox.browser.file_viewer import HEADERS, file_page
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.settings import ServerSettings
from bascule.wire import json_schema

from .execute_action import ExecuteAction
from .file_routes import FileRoutes, absolute
from .inflight import InFlight
from .metrics import SandboxMetrics
from .plugin import ServerPlugin
from .replies import ClientDisconnected, Message, Receive, RequestRefused, Scope, Send, send_error
from .requests import json_body, json_response, text
from .shell_routes import ShellRoutes
from .stream_route import StreamRoute
from .system import SystemInfo

logger = logging.getLogger(__name__)


class SandboxRoutes:
    """The ASGI app behind the guard. It turns every exception of an endpoint into a response."""

    def __init__(
        self,
        sandbox: Sandbox,
        in_flight: InFlight,
        settings: ServerSettings,
        plugin: ServerPlugin | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._in_flight = in_flight
        self._system = SystemInfo(sandbox.settings.shells.working_dir)
        self._metrics = SandboxMetrics(
            open_shells=lambda: len(sandbox.shells.names()), under_way=lambda: len(in_flight)
        )
        self._streams = StreamRoute(sandbox.shells, lag=settings.stream_lag)
        self._execute = ExecuteAction(
            sandbox,
            in_flight=in_flight,
            metrics=self._metrics,
            system=self._system,
            lag=settings.stream_lag,
        )
        self.table: list[BaseRoute] = [
            Route("/alive", self.alive, methods=["GET"]),
            Route("/server_info", self.server_info, methods=["GET"]),
            Route("/capabilities", self.capabilities, methods=["GET"]),
            Route("/execute_action", self._execute, methods=["POST"]),
            Route("/actions/{id}/cancel", self.cancel, methods=["POST"]),
            *FileRoutes(sandbox).table(),
            *ShellRoutes(sandbox).table(),
            *self._streams.table(),
            Route("/metrics", self.metrics, methods=["GET"]),
            Route("/schema", self.schema, methods=["GET"]),
            Route("/update_mcp_server", self.update_mcp_server, methods=["POST"]),
            Route("/vscode/connection_token", self.vscode_token, methods=["GET"]),
            Route("/view", self.view, methods=["GET"]),
        ]
        if plugin is not None:
            self._system.on_action = plugin.acted
            self.table += plugin.open(sandbox, self._last_action)
        self._router = Router(self.table, redirect_slashes=False, default=_unknown_path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer(scope, send)
        try:
            # The path of every action does not go through the regular expressions of the rest.
            if scope["path"] == "/execute_action" and scope.get("method") == "POST":
                await self._execute(scope, receive, answer.send)
            else:
                scope["app"] = self  # makes the router raise, rather than answer, a wrong method
                await self._router(scope, receive, answer.send)
        except ClientDisconnected:
            pass
        except RequestRefused as refused:
            await answer.fail(refused.error, refused.status)
        except BasculeError as error:
            await answer.fail(error)
        except HTTPException as error:
            status = 400 if error.status_code == 404 else error.status_code
            what = f"{scope['method']} {scope['path']}: {error.detail}"
            await answer.fail(InvalidRequest(what), status)
        except Exception:
            logger.exception("%s %s failed", scope.get("method", "WebSocket"), scope["path"])
            await answer.fail(InternalError("The action server failed; its log has the cause"))

    def finish_streams(self) -> None:
        self._streams.finish()

    def _last_action(self) -> float | None:
        return time.time() if len(self._in_flight) else self._system.acted_at

    async def alive(self, _: Request) -> Response:
        return json_response({"status": "ok"})

    async def server_info(self, _: Request) -> Response:
        if len(self._in_flight):
            self._system.touch()
        return json_response(await self._sandbox.in_thread(self._system.read))

    async def capabilities(self, _: Request) -> Response:
        return json_response(
            {
                "version": bascule.__version__,
                "capabilities": sorted(self._sandbox.capabilities),
                "working_dir": str(self._sandbox.settings.shells.working_dir),
                "view": self._sandbox.view_url,
            }
        )

    async def cancel(self, request: Request) -> Response:
        cancelled = await self._in_flight.cancel(EventId(request.path_params["id"]))
        return json_response({"cancelled": cancelled})

    async def metrics(self, _: Request) -> Response:
        body, kind = await self._sandbox.in_thread(self._metrics.text)
        return Response(body, media_type=kind)

    async def schema(self, _: Request) -> Response:
        return json_response(await self._sandbox.in_thread(json_schema))

    async def update_mcp_server(self, request: Request) -> Response:
        servers = await json_body(request)
        if not isinstance(servers, list):
            raise InvalidRequest("The body has to be a list of servers")
        for server in servers:
            if not isinstance(server, dict) or not {"name", "command"} <= server.keys():
                raise InvalidRequest("Each server needs a `name` and a `command`")
        log = "This sandbox does not run MCP servers; none was started." if servers else ""
        return json_response({"detail": "MCP servers read", "router_error_log": log})

    async def vscode_token(self, _: Request) -> Response:
        return json_response({"token": None})

    async def view(self, request: Request) -> Response:
        """A file as a page. The sandbox's own browser is shown it without coming here."""
        path = absolute(text(request, "path"), "path")
        page = await self._sandbox.in_thread(
            lambda: file_page(self._sandbox.paths.resolve(path, "/"))
        )
        return Response(page, media_type="text/html", headers=HEADERS)


class _Answer:
    """Sends a response and knows whether it has begun: an error can only be sent before that."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._begun = False

    async def send(self, message: Message) -> None:
        self._begun = True
        await self._send(message)

    async def fail(self, error: BasculeError, status: int | None = None) -> None:
        if not self._begun:
            await send_error(self._scope, self._send, error, status)


async def _unknown_path(scope: Scope, _: Receive, __: Send) -> None:
    # Not 404: to OpenHands' clients that means that the sandbox is gone.
    raise InvalidRequest(f"There is nothing at {scope['path']!r} on this server")
