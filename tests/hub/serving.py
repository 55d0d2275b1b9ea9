"""A hub on a loopback socket, clients for it, and a TCP relay that can be cut."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bascule.core.contracts import Spawner
from bascule.core.tracing import Tracing
from bascule.hub import Hub, HubSettings
from bascule.hub.identity import Scope
from bascule.hub.mounts import MakeMount
from bascule.hub.proxy import ProxyRoutes
from bascule.hub.web.api import MakeChecks
from bascule.link.http import HttpClient
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings
from bascule.serving.sockets import bound_pair, stop_accepting
from bascule.testing.window import FakeWindow, Journal
from bascule.wire import from_json, to_json

from .shared_validators import share_validators

share_validators()

ADMIN = "an-admin-token-for-tests"
TIMEOUT = 240.0
"""Seconds for an answer. Long, because a command may wait for steps of a test in a browser."""


class Client(HttpClient):
    """Sends requests and decodes the answers. Uses the admin's token by default."""

    def __init__(self, url: str, *, token: str = ADMIN) -> None:
        super().__init__(url, headers={"Authorization": f"Bearer {token}"} if token else {})

    async def ask(
        self,
        method: str,
        target: str,
        value: object = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        body = b"" if value is None else to_json(value)
        kind = {} if value is None else {"Content-Type": "application/json"}
        reply = await self.request(
            method, target, body=body, headers={**kind, **(headers or {})}, timeout=TIMEOUT
        )
        is_json = reply.headers.get("content-type") == "application/json"
        return reply.status, from_json(reply.body) if is_json else reply.body


class RunningHub:
    """A hub with the tokens that tests need; it can be stopped and started again."""

    def __init__(
        self,
        state_dir: Path | None = None,
        *,
        routes: ProxyRoutes | None = None,
        spawners: Callable[[], Mapping[str, Spawner]] = dict,
        mounts: Sequence[MakeMount] = (),
        checks: MakeChecks = tuple,
        tracing: Tracing | None = None,
        **settings: Any,
    ) -> None:
        self._sock = _free_on_both()
        self.port = self._sock.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        if "apps_origin" in settings:
            settings["apps_origin"] = settings["apps_origin"].format(port=self.port)
        self.settings = HubSettings(
            admin_token=ADMIN, port=self.port, state_dir=state_dir, **settings
        )
        self._routes = routes
        self._spawners = spawners
        self._mounts = mounts
        self._checks = checks
        self._tracing = tracing
        self.hub = self._made(self._sock)
        self.agent = self.window = ""

    @property
    def page_url(self) -> str:
        """The origin of the hub's page, to which browsers on this machine are redirected."""
        return self.hub.proxy.access_control.origins.page_origin(f"127.0.0.1:{self.port}")

    def session_url(self, session_id: str) -> str:
        """The origin of a session, for the same browsers."""
        return self.hub.proxy.access_control.origins.session_origin(
            f"127.0.0.1:{self.port}", session_id
        )

    async def __aenter__(self) -> Self:
        try:
            await self.hub.start()
            self.agent = await self.token("agent", "agent")
            self.window = await self.token("window", "window")
        except BaseException:
            await self.hub.aclose()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.hub.aclose()

    async def token(self, name: str, scope: Scope, **keywords: Any) -> str:
        return await self.hub.tokens.create(name, scope, **keywords)

    async def stop(self) -> None:
        await self.hub.aclose()

    async def start(self) -> None:
        self.hub = self._made(None)
        await self.hub.start()

    def _made(self, sock: socket.socket | None) -> Hub:
        return Hub(
            self.settings,
            sock=sock,
            routes=self._routes,
            spawners=self._spawners(),
            mounts=self._mounts,
            checks=self._checks,
            tracing=self._tracing,
        )

    @asynccontextmanager
    async def fake_window(
        self,
        workspace: Path,
        *,
        url: str = "",
        token: str = "",
        name: str = "fake",
        journal: Journal | None = None,
        checkpoints: Path | None = None,
    ) -> AsyncIterator[FakeWindow]:
        shells = ShellSettings(working_dir=workspace)
        settings = SandboxSettings(shells=shells, checkpoints=checkpoints)
        window = FakeWindow(
            url or self.url, token or self.window, settings, name=name, journal=journal
        )
        async with window:
            await window.connect()
            yield window


def _free_on_both() -> socket.socket:
    """A port that the hub can have on both loopback addresses."""
    sock, *rest = bound_pair("127.0.0.1", 0, who="The test")
    for other in rest:
        other.close()
    return sock


class TcpRelay:
    """A TCP relay to a port: can be cut, which breaks what goes over it, and mended."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._is_cut = False
        self._passes = asyncio.Event()
        self._passes.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.restore()
        await stop_accepting(self._server)
        self.cut()
        await self._server.wait_closed()

    def cut(self) -> None:
        """Reset every connection and refuse new ones."""
        self._is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    def restore(self) -> None:
        self._is_cut = False
        self._passes.set()

    def stall(self) -> None:
        """Forward no data and keep connections open, as a network failure often looks."""
        self._passes.clear()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except ConnectionRefusedError:  # the server is being restarted
            writer.transport.abort()
            return
        pair = {writer, back}
        self._writers |= pair
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._pump(reader, back))
                tasks.create_task(self._pump(there, writer))
        finally:
            self._writers -= pair
            for each in pair:
                each.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                await self._passes.wait()
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        writer.transport.abort()
