"""A hub with sessions of kind `local`, at its own address or behind nginx, and a browser."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from bascule.core.contracts import Spawner
from bascule.core.sessions import SessionId
from bascule.hub.proxy.nginx import render
from bascule.runtime.spawn.local import LocalSettings, LocalSpawner
from bascule.runtime.spawn.vscode import SharedVSCode
from bascule.sandbox.vscode.installation import Installation
from bascule.sandbox.vscode.shared import shared_extensions
from tests.hub.proxy.test_nginx import Front
from tests.hub.serving import ADMIN, RunningHub
from tests.hub.sessions.serving import SessionsClient

from .code_server import CHROMIUM, build_extension, install_editor

RESOLVER: Final = "--host-resolver-rules=MAP hub.test 127.0.0.1,MAP *.sessions.test 127.0.0.1"
TIMEOUT: Final = 60.0
"""Seconds; a busy machine needs some of them."""
CAN_ISOLATE: Final = os.geteuid() == 0 and shutil.which("bwrap") is not None


class LocalHub(RunningHub):
    """Everything of its sessions is ended afterwards."""

    def __init__(self, directory: Path, vscode: SharedVSCode, **settings: Any) -> None:
        self.run_dir: Path = settings.setdefault("run_dir", directory / "run")
        # Several browsers start at once on a machine that has other things to do as well.
        settings.setdefault("probe_timeout", 20.0)
        self._local = LocalSettings(
            sessions_dir=directory / "sessions",
            run_dir=self.run_dir,
            state_dir=directory / "warden",
            workspace_roots=(directory,),
            vscode=vscode,
        )
        super().__init__(directory, spawners=self._make, **settings)

    def _make(self) -> Mapping[str, Spawner]:
        return {"local": LocalSpawner(self._local)}

    async def end_sessions(self) -> None:
        async with LocalSpawner(self._local) as spawner:
            await spawner.open()
            for each in await spawner.running():
                await spawner.stop(each.session_id, grace=0)


class SessionGround:
    """What a person and an agent have: an address, a browser that is signed in, a token."""

    def __init__(
        self, hub: LocalHub, asker: SessionsClient, browser: Browser, *, front: Front | None
    ):
        self.hub = hub
        self.asker = asker
        self.browser = browser
        self.front = front
        self.context: BrowserContext
        self.pages: list[Page] = []

    @property
    def url(self) -> str:
        return self.hub.hub.url

    def origin(self, session_id: str) -> str:
        """Where the person's browser has a session."""
        host = urlsplit(self.url).netloc
        return self.hub.hub.proxy.access_control.origins.session_origin(host, session_id)

    def file(self, session_id: str, name: str) -> Path:
        """In its workspace, seen from outside."""
        return self.hub.settings.state_dir / "sessions" / session_id / "workspace" / name  # type: ignore[operator]

    async def sign_in(self) -> None:
        self.context = await self.browser.new_context(
            ignore_https_errors=True, viewport={"width": 1200, "height": 800}
        )
        page = await self.context.new_page()
        await page.goto(f"{self.url}/sign-in")
        await page.get_by_label("Token").fill(ADMIN)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page).not_to_have_title("Sign in to Bascule")
        await page.close()

    async def open(self, session_id: str) -> Page:
        """Its VS Code in a tab of the person's, as soon as its files are shown."""
        page = await self.context.new_page()
        self.pages.append(page)
        address = f"{self.url}/vscode/{session_id}/"
        await page.goto(address, wait_until="commit", timeout=TIMEOUT * 1000)
        await page.locator(".explorer-folders-view").wait_for(timeout=TIMEOUT * 1000)
        return page

    async def close_pages(self) -> None:
        for page in self.pages:
            await page.close()
        self.pages.clear()

    async def host(self, session_id: str, *, after: int = -1, is_it: int | None = None) -> int:
        """The number of the host that acts for its window, once that is healthy and came after
        another, or is a certain one."""
        hub = self.hub.hub
        async with asyncio.timeout(TIMEOUT):
            while True:
                change = hub._sockets.next_change()
                found = hub.sessions.windows.find(SessionId(session_id))
                if found is not None:
                    number = hub._registry.active_host(found.id).number
                    if number > after and is_it in (None, number):
                        return number
                await change


@asynccontextmanager
async def session_ground(
    *, certificate: tuple[Path, Path] | None = None, **settings: Any
) -> AsyncIterator[SessionGround]:
    """With a certificate, behind nginx."""
    vscode = await asyncio.to_thread(installed_vscode)
    directory = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="bsc-"))
    directory.chmod(0o711)
    async with AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, directory)
        front = None
        if certificate is not None:
            (directory / "nginx").mkdir()
            front = await asyncio.to_thread(Front, directory / "nginx", certificate)
            settings |= {
                "public_url": front.url,
                "sessions_origin": front.sessions_origin,
                "run_dir": front.run_dir,
            }
        hub = LocalHub(directory, vscode, **settings)
        await stack.enter_async_context(hub)
        stack.push_async_callback(hub.end_sessions)
        if front is not None:
            await asyncio.to_thread(front.nginx.install, render(front.site(hub.port)), front.file)
            await asyncio.to_thread(front.start)
            stack.callback(front.stop)
        asker = await stack.enter_async_context(SessionsClient(hub.url))
        playwright = await stack.enter_async_context(async_playwright())
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", RESOLVER],
        )
        stack.push_async_callback(browser.close)
        ground = SessionGround(hub, asker, browser, front=front)
        await ground.sign_in()
        yield ground


def installed_vscode() -> SharedVSCode:
    """Installed and built first if it is not. Blocks."""
    installation = Installation(install_editor())
    return SharedVSCode(installation.home, shared_extensions(installation, build_extension()))
