"""A hub, a VS Code and a browser that many tests share, on a separate event loop.

Each test has its own event loop. The shared servers run on the rig's loop, in a thread.
`await rig.on(…)` runs a coroutine there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from playwright.async_api import Browser, Page, Playwright, async_playwright

from bascule.adapters.mcp.mount import McpMount
from bascule.core.errors import LinkError
from bascule.core.windows import WindowId
from bascule.hub import Hub, HubSettings, Identity
from tests.hub.serving import TcpRelay

from .code_server import CHROMIUM, CodeServer, build_extension, install_editor

T = TypeVar("T")

_CONNECTED = 240.0
_PROBE = 20.0
"""Seconds for an editor to answer. Long, because other tests use the machine at the same time."""
ADMIN = "an-admin-token-for-the-rig"
_ADMIN = Identity(name="rig", owner="admin", scope="admin")


@dataclass(slots=True)
class EditorWindow:
    """A window of VS Code that is connected to the rig's hub."""

    id: WindowId
    folder: Path
    page: Page
    server: CodeServer


class Rig:
    """The shared hub, VS Code and browser. Call `open` first and `close` at the end. The hub's
    address is `url`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rig", daemon=True)
        self._home: Path
        self._vsix: Path
        self._token: Path
        self._hub_settings: HubSettings
        self._servers: list[CodeServer] = []
        self._playwright: Playwright
        self.hub: Hub
        self.relay: TcpRelay
        """The connection between the windows and the hub. Tests can cut it."""
        self.browser: Browser
        self._agents = 0

    @property
    def url(self) -> str:
        return self.hub.url

    @property
    def is_open(self) -> bool:
        return not self._loop.is_closed()

    def open(self, **settings: Any) -> None:
        self._home, self._vsix = install_editor(), build_extension()
        self._thread.start()
        self.wait(self._open(settings))

    def close(self) -> None:
        self.wait(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self._submit(work).result()

    async def on(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(self._submit(work))

    def new_name(self) -> str:
        """A new agent name, so that the agent gets new shells."""
        self._agents += 1
        return f"agent-{self._agents}"

    async def agent_token(self) -> str:
        return await self.on(self.hub.tokens.create(self.new_name(), "agent"))

    async def open_window(
        self,
        folder: Path,
        browser: Browser | None = None,
        *,
        server: CodeServer | None = None,
        script: str = "",
    ) -> EditorWindow:
        """Runs on the rig's loop. Returns once the window is registered and healthy.

        `script` runs in the page before VS Code, also after a reload.
        """
        folder.mkdir(exist_ok=True)
        server = server or self._servers[0]
        page = await server.open(browser or self.browser, folder, script=script)
        return EditorWindow(await self.registered(folder), folder, page, server)

    async def stop_serving(self, server: CodeServer) -> None:
        """Runs on the rig's loop. Close all tabs of the server first."""
        self._servers.remove(server)
        await server.stop()

    async def host_number(self, window_id: WindowId) -> int:
        """The number of the extension host that currently gets the actions. The number grows with
        every registration."""
        return self.hub._registry.active_host(window_id).number

    async def editor_answers(self, window_id: WindowId) -> bool:
        return await self.hub._sockets._probe(self.hub._registry.active_host(window_id))

    @asynccontextmanager
    async def noticing_soon(self) -> AsyncIterator[None]:
        """While open, the hub waits only a few seconds for an editor to answer."""
        sockets = self.hub._sockets
        patient = sockets._settings
        sockets._settings = replace(patient, probe_timeout=3.0)
        try:
            yield
        finally:
            sockets._settings = patient

    async def crash(self, page: Page) -> None:
        """Runs on the rig's loop. Crashes the process of the page without closing connections."""
        crashed = asyncio.get_running_loop().create_future()
        page.once("crash", lambda _: crashed.set_result(None))
        with suppress(Exception):  # the crashed page cannot finish the navigation
            await page.goto("chrome://crash", timeout=1000)
        await crashed

    async def close_tab(self, window_id: WindowId, page: Page) -> None:
        """Runs on the rig's loop. Returns once the tab's extension host has disconnected."""
        number = await self.host_number(window_id)
        await page.close()
        while True:
            change = self.hub._sockets.next_change()
            with suppress(LinkError):
                if await self.host_number(window_id) != number:
                    return
            await change

    async def reload(self, window: EditorWindow) -> None:
        """Runs on the rig's loop. Returns once a new extension host serves the window."""
        before = await self.host_number(window.id)
        await window.page.reload()
        await self.newer_host(window.id, before)

    async def newer_host(self, window_id: WindowId, number: int) -> None:
        """Returns once an extension host with a number above `number` gets the actions."""
        try:
            async with asyncio.timeout(_CONNECTED):
                while True:
                    change = self.hub._sockets.next_change()
                    with suppress(LinkError):
                        if self.hub._registry.active_host(window_id).number > number:
                            return
                    await change
        except TimeoutError:
            known = self.hub._registry.windows()
            raise AssertionError(f"no host of {window_id} after {number}: {known}") from None

    async def restart_hub(self) -> None:
        """Runs on the rig's loop. The port and tokens stay the same; all connections are lost."""
        await self.hub.aclose()
        self.hub = Hub(self._hub_settings, mounts=(McpMount,))
        await self.hub.start()

    async def serve(
        self,
        name: str,
        settings: dict[str, Any],
        environment: dict[str, str] | None = None,
        extensions: Sequence[Path] = (),
    ) -> CodeServer:
        """Runs on the rig's loop. Starts another VS Code with its own settings."""
        told = {"bascule.hub": self.relay.url, "bascule.tokenFile": str(self._token), **settings}
        server = CodeServer(
            self._home,
            self._directory / name,
            settings=told,
            environment=environment,
            extensions=extensions,
        )
        self._servers.append(server)
        await server.start(self._vsix)
        return server

    async def registered(self, folder: Path) -> WindowId:
        """Wait for a healthy window of `folder`, and return its id."""
        link = self.hub.windows(_ADMIN)
        async with asyncio.timeout(_CONNECTED):
            while True:
                change = self.hub._sockets.next_change()
                for window in await link.windows():
                    paths = [each.path for each in window.folders]
                    if paths == [str(folder)] and window.status == "healthy":
                        return window.id
                await change

    async def status(self, window_id: WindowId, wanted: str) -> None:
        """Returns once the hub reports the status `wanted` for the window."""
        link = self.hub.windows(_ADMIN)
        while True:
            change = self.hub._sockets.next_change()
            if any(w.id == window_id and w.status == wanted for w in await link.windows()):
                return
            await change

    async def screenshot(self, file: Path) -> None:
        for number, context in enumerate(self.browser.contexts):
            for page in context.pages:
                with suppress(Exception):  # a picture of a failure must not hide the failure
                    await page.screenshot(path=file.with_name(f"{file.name}-{number}.png"))

    def keep_logs(self, directory: Path) -> None:
        """Copy the logs of the VS Code servers and the extension to `directory`."""
        for server in self._servers:
            for log in server.logs():
                directory.mkdir(exist_ok=True)
                copy = directory / f"{log.parent.name}-{log.name}"
                copy.write_bytes(log.read_bytes())

    async def launch_browser(self) -> Browser:
        return await self._playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )

    async def browser_pid(self, browser: Browser) -> int:
        session = await browser.new_browser_cdp_session()
        info = await session.send("SystemInfo.getProcessInfo")
        return next(int(each["id"]) for each in info["processInfo"] if each["type"] == "browser")

    async def _open(self, settings: dict[str, Any]) -> None:
        self._hub_settings = HubSettings(
            admin_token=ADMIN, state_dir=self._directory / "hub", port=0, probe_timeout=_PROBE
        )
        self.hub = Hub(self._hub_settings, mounts=(McpMount,))
        await self.hub.start()
        port = int(self.hub.url.rpartition(":")[2])
        self._hub_settings = replace(self._hub_settings, port=port)
        self.relay = TcpRelay(port)
        await self.relay.__aenter__()
        self._token = self._directory / "token"
        self._token.touch(mode=0o600)
        self._token.write_text(await self.hub.tokens.create("window", "window"))
        self._playwright = await async_playwright().start()
        starting = asyncio.create_task(self.serve("data", settings))
        self.browser = await self.launch_browser()
        await starting

    async def _close(self) -> None:
        await self.browser.close()
        await self._playwright.stop()
        for server in self._servers:
            await server.stop()
        await self.relay.__aexit__(None, None, None)
        await self.hub.aclose()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)
