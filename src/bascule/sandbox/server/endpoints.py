"""Every endpoint of the action server. `routes` imports this module when a request needs it.

docs/protocol.md documents the endpoints; a test compares it with this table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router

import bascule
from bascule.core.errors import InvalidRequest
from bascule.core.identity import EventId
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.settings import ServerSettings
from bascule.serving.asgi import Receive, Scope, Send
from bascule.serving.refusals import Refused
from bascule.wire import json_schema

from .context_routes import ContextRoutes
from .execute_action import ExecuteAction
from .file_routes import FileRoutes, absolute
from .filesystem_routes import FilesystemRoutes
from .inflight import InFlight
from .metrics import SandboxMetrics
from .program_routes import ProgramRoutes
from .requests import json_body, json_response, text
from .shell_routes import ShellRoutes
from .stream_route import StreamRoute
from .system import SystemInfo


class Endpoints:
    """The ASGI app of all endpoints. Raises errors, which the caller turns into responses."""

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        in_flight: InFlight,
        settings: ServerSettings,
        execute: ExecuteAction,
        metrics: SandboxMetrics,
        system: SystemInfo,
        more: Sequence[BaseRoute],
    ) -> None:
        self._sandbox = sandbox
        self._in_flight = in_flight
        self._system = system
        self._metrics = metrics
        self._streams = StreamRoute(sandbox.shells, lag=settings.stream_lag)
        self._programs = ProgramRoutes(sandbox, system)
        self._filesystem = FilesystemRoutes(sandbox)
        self.table: list[BaseRoute] = [
            Route("/alive", self.alive, methods=["GET"]),
            Route("/server_info", self.server_info, methods=["GET"]),
            Route("/capabilities", self.capabilities, methods=["GET"]),
            Route("/execute_action", execute, methods=["POST"]),
            Route("/actions/{id}/cancel", self.cancel, methods=["POST"]),
            *FileRoutes(sandbox).table(),
            *self._filesystem.table(),
            *ContextRoutes(sandbox, system).table(),
            *ShellRoutes(sandbox).table(),
            *self._programs.table(),
            *self._streams.table(),
            Route("/metrics", self.metrics, methods=["GET"]),
            Route("/schema", self.schema, methods=["GET"]),
            Route("/update_mcp_server", self.update_mcp_server, methods=["POST"]),
            Route("/vscode/connection_token", self.vscode_token, methods=["GET"]),
            Route("/view", self.view, methods=["GET"]),
            *more,
        ]
        self._router = Router(self.table, redirect_slashes=False, default=_unknown_path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self  # so the router raises `HTTPException` for a wrong method
        try:
            await self._router(scope, receive, send)
        except HTTPException as error:
            status = 400 if error.status_code == 404 else error.status_code
            message = f"{scope['method']} {scope['path']}: {error.detail}"
            raise Refused(status, InvalidRequest(message)) from error

    def finish_streams(self) -> None:
        self._streams.finish()
        self._programs.finish()
        self._filesystem.finish()

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
            raise InvalidRequest("The body must be a list of servers")
        for server in servers:
            if not isinstance(server, dict) or not {"name", "command"} <= server.keys():
                raise InvalidRequest("Each server needs a `name` and a `command`")
        log = "This sandbox does not run MCP servers; none was started." if servers else ""
        return json_response({"detail": "MCP servers read", "router_error_log": log})

    async def vscode_token(self, _: Request) -> Response:
        return json_response({"token": None})

    async def view(self, request: Request) -> Response:
        """Show a file as an HTML page. The sandbox's own browser does not use this endpoint."""
        path = absolute(text(request, "path"), "path")
        page, headers = await self._sandbox.in_thread(self._page_of, path)
        return Response(page, media_type="text/html", headers=headers)

    def _page_of(self, path: str) -> tuple[bytes, Mapping[str, str]]:
        """Runs in a thread, so it can import modules. Few sandboxes ever serve a page."""
        from bascule.sandbox.browser.file_viewer import HEADERS, file_page

        return file_page(self._sandbox.files.paths.resolve(path, "/")), HEADERS


async def _unknown_path(scope: Scope, _: Receive, __: Send) -> None:
    # Not 404: OpenHands' clients take 404 to mean that the sandbox no longer exists.
    raise InvalidRequest(f"There is nothing at {scope['path']!r} on this server")
