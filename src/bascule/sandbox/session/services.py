"""The additional services of a session, on the sandbox's server under `/session/…`."""

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
from bascule.core.broadcaster import Subscription
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.server.requests import json_response
from bascule.sandbox.server.sse import HEARTBEAT, Events, send_events
from bascule.sandbox.server.sse import event as sse_event
from bascule.sandbox.shell.settings import shell_environment
from bascule.serving.asgi import Receive, Scope, Send
from bascule.serving.connection import CONNECTION, Connection
from bascule.wire import to_json

from .activity import ActivityMonitor
from .command_approvals import SessionApprovals
from .fork_changes import ForkChangeRoutes
from .launch import SandboxLaunch
from .openhands_image import write_expected_files
from .ports import DECLARED, AppPorts
from .processes import SessionProcesses
from .session_events import PublishedEvent, SessionEvents
from .terminal_routes import TerminalRoutes
from .terminals import SessionTerminals
from .timeline import SessionTimeline
from .tunnel import LoopbackPort
from .vscode import SessionVSCode
from .vscode_routes import VSCodeRoutes
from .workspace import Workspace
from .workspace_routes import WorkspaceRoutes

_MAX_SCAN_INTERVAL_WITH_VSCODE: Final = 2.0
_MAX_SCAN_INTERVAL: Final = 10.0
"""Longest intervals between two scans for ports, in seconds. The shorter interval applies while
VS Code runs, because the terminals in VS Code give no events."""
_MAX_NOTICE: Final = 4000
"""Maximum characters of a notice; the hub refuses longer texts."""
_KEYSTROKE: Final = "keystroke"
"""File in the state directory that a VS Code window touches when somebody types in it."""


class SessionServices:
    """The `ServerPlugin` of a session: ports, workspace, VS Code, terminals, timeline and activity.

    Call `prepare` before creating the sandbox, which needs the variables that it returns.
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
            slowest=lambda: (
                _MAX_SCAN_INTERVAL_WITH_VSCODE if self._vscode.is_running else _MAX_SCAN_INTERVAL
            ),
        )
        self._loopback_ports: tuple[LoopbackPort, LoopbackPort]
        self._vscode: SessionVSCode
        self._workspace: Workspace
        self._fork_changes: ForkChangeRoutes
        self._activity: ActivityMonitor
        self._sandbox: Sandbox
        self._approvals = SessionApprovals(self._events, is_isolated=launch.is_isolated)
        self._loop: asyncio.AbstractEventLoop
        self._timeline = SessionTimeline(launch.working_dir)
        self._terminals: SessionTerminals
        self._terminal_routes: TerminalRoutes

    def prepare(self) -> Mapping[str, str]:
        """Extra environment variables for the session's programs. Blocks the calling thread."""
        self._state_dir.mkdir(parents=True, exist_ok=True)
        variables = dict(self._ports.prepare())
        to_hub = LoopbackPort(self._state_dir / "hub.port")
        to_vscode = LoopbackPort(self._state_dir / "window.port")
        self._loopback_ports = to_hub, to_vscode
        for loopback in self._loopback_ports:
            self._ports.exclude(loopback.port)
        if self._launch.session_id:
            variables["BASCULE_SESSION_ID"] = self._launch.session_id
            for index, n in enumerate(DECLARED, start=1):
                variables[f"APP_BASE_PATH_{index}"] = self._path(n)
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
        if sandbox.checkpoints is not None:
            sandbox.checkpoints.on_notice = self._pass_notice
        self._terminals = SessionTerminals(sandbox)
        self._terminal_routes = TerminalRoutes(self._terminals)
        self._workspace = Workspace(
            Path(self._launch.working_dir),
            self._state_dir,
            sandbox=sandbox,
            events=self._events,
        )
        self._fork_changes = ForkChangeRoutes(
            Path(self._launch.working_dir), self._state_dir, sandbox
        )
        self._activity = ActivityMonitor(
            self._processes, keystroke_file=self._state_dir / _KEYSTROKE, last_action=last_action
        )
        self._vscode = SessionVSCode(
            self._launch,
            environment=shell_environment(sandbox.settings.shells),
            keystrokes=self._state_dir / _KEYSTROKE,
            loopback_ports=self._loopback_ports,
            processes=self._processes,
            events=self._events,
            ports=self._described_ports,
        )
        return [
            Route("/session/events", _Events(self), methods=["GET"]),
            Route("/session/ports", self.list_ports, methods=["GET"]),
            *VSCodeRoutes(self._vscode).table(),
            *WorkspaceRoutes(self._workspace, self._state_dir, sandbox).table(),
            *self._fork_changes.table(),
            Route("/session/activity", self.activity, methods=["GET"]),
            *self._timeline.table(),
            *self._terminal_routes.table(),
            *self._approvals.open(sandbox),
        ]

    def acted(self) -> None:
        self._ports.scan_soon()

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._workspace.prepare)
        await asyncio.to_thread(self._fork_changes.prepare)
        if self._launch.is_isolated:
            await asyncio.to_thread(self._write_expected_files)
        self._sandbox.shells.subscribe(lambda _: self._ports.scan_soon())
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
        return json_response(await self._described_ports())

    async def _described_ports(self) -> dict[str, Any]:
        apps = await self._ports.scan()
        return {
            "ports": [self._described(asdict(app)) for app in apps],
            "declared": [{"n": n, "port": port} for n, port in self._ports.declared()],
        }

    async def activity(self, _: Request) -> Response:
        return json_response(await asyncio.to_thread(self._activity.read))

    async def send_events(self, connection: Connection, send: Send) -> None:
        with self._events.subscribe() as subscription:
            events = self._encoded(subscription)
            await send_events(connection, send, events, finish=subscription.finish)

    async def _encoded(self, subscription: Subscription[PublishedEvent]) -> Events:
        yield sse_event("state", to_json(await self._state()))
        async for event in subscription.items(heartbeat=HEARTBEAT):
            if event is None:
                yield b""
            else:
                yield sse_event(event.name, to_json(self._described(event.data)))

    async def _state(self) -> dict[str, Any]:
        apps = self._ports.known()
        return {
            "ports": [self._described(app) for app in apps],
            "workspace": await self._workspace.status(),
            "vscode": await self._vscode.status(),
            "approvals": self._approvals.pending(),
        }

    def _pass_notice(self, text: str) -> None:
        """Called in the thread that records checkpoints."""
        notice = text[:_MAX_NOTICE]
        self._loop.call_soon_threadsafe(
            lambda: self._events.publish("checkpoints.notice", text=notice)
        )

    def _write_expected_files(self) -> None:
        write_expected_files(
            self._launch.file_layout,
            Path(self._launch.working_dir),
            view_url=self._sandbox.view_url,
            has_browser=Browse.kind in self._sandbox.capabilities,
        )

    def _described(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return `data`. If it describes an app, add the URL path of the app."""
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
