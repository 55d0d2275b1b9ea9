"""The services of a session beside its sandbox, on the same server under `/session/…`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from bascule.core.actions import Browse
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.server.listener import CONNECTION, Connection
from bascule.sandbox.server.replies import Receive, Scope, Send
from bascule.sandbox.server.requests import json_response
from bascule.sandbox.server.sse import event as sse_event
from bascule.sandbox.server.sse import start_events
from bascule.sandbox.shell.settings import shell_environment
from bascule.wire import to_json

from .activity import ActivityMonitor
from .launch import SandboxLaunch
from .openhands_image import write_expected_files
from .ports import DECLARED, AppPorts
from .processes import SessionProcesses
from .session_events import SessionEvents
from .terminal_routes import TerminalRoutes
from .terminals import SessionTerminals
from .timeline import SessionTimeline
from .tunnel import LoopbackPort
from .vscode import SessionVSCode
from .vscode_routes import VSCodeRoutes
from .workspace import Workspace
from .workspace_routes import WorkspaceRoutes

_HEARTBEAT: Final = 15.0
_WATCHED: Final = 2.0
_QUIET: Final = 10.0
"""Longest interval between two scans for ports, in seconds: `_WATCHED` while VS Code runs, because
the terminals in it give no events, `_QUIET` otherwise."""
_KEYSTROKE: Final = "keystroke"
"""File in the state directory that a VS Code window touches when somebody types in it."""


class SessionServices:
    """The `ServerPlugin` of a session: ports, workspace, VS Code, terminals, timeline and activity.

    Call `prepare` before the sandbox is made: the sandbox needs the variables it returns.
    """

    def __init__(self, launch: SandboxLaunch) -> None:
        self._launch = launch
        self._state_dir = Path(launch.state_dir)
        self._events = SessionEvents()
        self._processes = SessionProcesses(root=os.getpid(), is_isolated=launch.is_isolated)
        self._ports = AppPorts(
            Path(launch.run_dir),
            self._state_dir,
            processes=self._processes,
            events=self._events,
            is_isolated=launch.is_isolated,
            slowest=lambda: _WATCHED if self._vscode.is_running else _QUIET,
        )
        self._loopback_ports: tuple[LoopbackPort, LoopbackPort]
        self._vscode: SessionVSCode
        self._workspace: Workspace
        self._activity: ActivityMonitor
        self._sandbox: Sandbox
        self._timeline = SessionTimeline(launch.working_dir)
        self._terminals: SessionTerminals
        self._terminal_routes: TerminalRoutes

    def prepare(self) -> Mapping[str, str]:
        """Extra environment variables for the session's programs. Blocks."""
        self._state_dir.mkdir(parents=True, exist_ok=True)
        variables = dict(self._ports.prepare())
        memories = (self._state_dir / name for name in ("hub.port", "window.port"))
        first, second = map(LoopbackPort, memories)
        self._loopback_ports = first, second
        for loopback in self._loopback_ports:
            self._ports.leave_out(loopback.port)
        if self._launch.session_id:
            variables["BASCULE_SESSION_ID"] = self._launch.session_id
            for place, n in enumerate(DECLARED, start=1):
                variables[f"APP_BASE_PATH_{place}"] = self._path(n)
        return variables

    @property
    def refused(self) -> tuple[tuple[str, int], ...]:
        """Addresses that the agent's browser must not open; known after `prepare`."""
        return tuple(("127.0.0.1", loopback.port) for loopback in self._loopback_ports)

    def open(
        self, sandbox: Sandbox, last_action: Callable[[], float | None]
    ) -> Sequence[BaseRoute]:
        self._sandbox = sandbox
        self._timeline.watch(sandbox)
        self._terminals = SessionTerminals(sandbox)
        self._terminal_routes = TerminalRoutes(self._terminals)
        self._workspace = Workspace(
            Path(self._launch.working_dir),
            self._state_dir,
            sandbox=sandbox,
            events=self._events,
        )
        self._activity = ActivityMonitor(
            self._processes, editor=self._state_dir / _KEYSTROKE, last_action=last_action
        )
        self._vscode = SessionVSCode(
            self._launch,
            environment=shell_environment(sandbox.settings.shells),
            keystrokes=self._state_dir / _KEYSTROKE,
            loopback_ports=self._loopback_ports,
            processes=self._processes,
            events=self._events,
        )
        return [
            Route("/session/events", _Events(self), methods=["GET"]),
            Route("/session/ports", self.list_ports, methods=["GET"]),
            *VSCodeRoutes(self._vscode).table(),
            *WorkspaceRoutes(self._workspace, self._state_dir, sandbox).table(),
            Route("/session/activity", self.activity, methods=["GET"]),
            *self._timeline.table(),
            *self._terminal_routes.table(),
        ]

    def acted(self) -> None:
        self._ports.nudge()

    async def start(self) -> None:
        await asyncio.to_thread(self._workspace.prepare)
        if self._launch.is_isolated:
            await asyncio.to_thread(self._write_expected_files)
        self._sandbox.shells.subscribe(lambda _: self._ports.nudge())
        await self._ports.start()

    def finish_streams(self) -> None:
        self._events.close()
        self._timeline.finish()
        self._terminal_routes.finish()

    async def aclose(self) -> None:
        await self._terminals.aclose()
        await self._vscode.aclose()
        await self._workspace.aclose()
        for loopback in self._loopback_ports:
            loopback.close()
        await self._ports.aclose()

    async def list_ports(self, _: Request) -> Response:
        apps = await self._ports.look()
        return json_response(
            {
                "ports": [self._described(asdict(app)) for app in apps],
                "declared": [{"n": n, "port": port} for n, port in self._ports.declared()],
            }
        )

    async def activity(self, _: Request) -> Response:
        return json_response(await asyncio.to_thread(self._activity.read))

    async def send_events(self, connection: Connection, send: Send) -> None:
        subscription = self._events.subscribe()
        connection.when_lost = subscription.finish
        try:
            await start_events(send)
            await _send(send, "state", await self._state())
            async for event in subscription.events(heartbeat=_HEARTBEAT):
                if event is None:
                    await _send_bytes(send, b": still here\n\n")
                else:
                    await _send(send, event.name, self._described(event.data))
            await send({"type": "http.response.body", "body": b""})
        finally:
            connection.when_lost = None
            subscription.finish()

    async def _state(self) -> dict[str, Any]:
        apps = self._ports.known()
        return {
            "ports": [self._described(app) for app in apps],
            "workspace": await self._workspace.standing(),
            "vscode": await self._vscode.standing(),
        }

    def _write_expected_files(self) -> None:
        write_expected_files(
            self._launch.likeness,
            Path(self._launch.working_dir),
            view_url=self._sandbox.view_url,
            browses=Browse.kind in self._sandbox.capabilities,
        )

    def _described(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """`data` with the app's URL path added if it describes an app."""
        if "socket" not in data or "n" not in data:
            return dict(data)
        return {**data, "path": self._path(data["n"]) if self._launch.session_id else ""}

    def _path(self, n: int) -> str:
        return f"/apps/{self._launch.session_id}-{n}/"


class _Events:
    """An ASGI app: Starlette passes ASGI through unchanged only to an object, not to a function."""

    def __init__(self, services: SessionServices) -> None:
        self._services = services

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        await self._services.send_events(scope[CONNECTION], send)


async def _send(send: Send, name: str, data: Mapping[str, Any]) -> None:
    await _send_bytes(send, sse_event(name, to_json(data)))


async def _send_bytes(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
