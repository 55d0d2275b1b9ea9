"""A hub, a VS Code and a browser with one window that is connected to it, all processes apart."""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import socketio
from playwright.async_api import Page, async_playwright

from bascule.core.windows import WindowStatus
from bascule.link.hub import HubLink
from bascule.link.hub_calls import HubCalls
from bascule.runtime.vscode import VSCodeRuntime
from bascule.sandbox.vscode.installation import Installation
from bascule.sandbox.vscode.server import VSCodeServer, VSCodeSettings

CONNECT_TIMEOUT = 120.0
STOP_TIMEOUT = 20.0
USER = {"files.autoSave": "off", "git.enabled": False, "security.workspace.trust.enabled": False}
MACHINE = {
    "bascule.consent": {"*": "allow"},
    "bascule.allowedCommands": ["probe.*"],
    "bascule.python": sys.executable,
}
"""Nobody is there to answer questions. This Python has ipykernel."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What the harness found and built; see `benchmarks.editor`."""

    code_server: Path
    extension: Path
    probe: Path
    chromium: Path


class WindowRig:
    """From `open` to `aclose` there is a window on `folder`, with an agent that can act in it."""

    def __init__(self, parts: Parts, folder: Path) -> None:
        self._parts = parts
        self._folder = folder
        self._data = folder.parent / "vscode"
        self._stack = AsyncExitStack()
        self._link: HubLink
        self._page: Page
        self.relay_url = ""
        self.agent: VSCodeRuntime
        self.asker: socketio.AsyncClient
        """Connected to the relay and to nothing else."""

    async def open(self) -> None:
        admin = secrets.token_urlsafe(32)
        state = self._folder.parent / "hub"
        serve = ("-m", "bascule", "serve", "--port", "0", "--state-dir", str(state))
        hub = await self._start(*serve, BASCULE_TOKEN=admin, BASCULE_LOG="error")
        self.relay_url = await self._start("-m", "benchmarks.peers.relay")
        calls = HubCalls(hub, admin)
        window_token = await calls.create_token("window", "window")
        agent_token = await calls.create_token("agent", "agent")
        await calls.aclose()
        address = await self._serve_vscode(hub, window_token)
        self._link = HubLink(hub, agent_token)
        self.agent = VSCodeRuntime(link=self._link)
        self._stack.push_async_callback(self.agent.aclose)
        await self._link.connect()
        self._page = await self._open_page(address)
        await self.window_is("healthy")
        await self.agent.connect()
        await self._connect_asker()

    async def aclose(self) -> None:
        await self._stack.aclose()

    async def command(self, name: str, *arguments: Any) -> Any:
        """What a command of the probe returns."""
        return (await self.agent.vscode_command(name, *arguments)).result

    async def window_is(self, status: WindowStatus) -> None:
        """Returns once the hub says that of the window."""
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                async for windows in self._link.watch():
                    if any(window.status == status for window in windows):
                        return
        except TimeoutError:
            raise TimeoutError(f"no {status} window in {CONNECT_TIMEOUT:.0f} s") from None

    async def reload(self) -> None:
        """As a user does; returns when the browser has begun anew."""
        await self._page.reload(wait_until="commit")

    async def _start(self, *arguments: str, **environment: str) -> str:
        """Start a server of ours; its first line is its address."""
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._stack.push_async_callback(asyncio.to_thread, _end, process)
        assert process.stdout is not None
        address = (await asyncio.to_thread(process.stdout.readline)).strip()
        if not address:
            raise RuntimeError(f"{arguments[1]} ended; .bench/logs has its words")
        return address

    async def _serve_vscode(self, hub: str, token: str) -> str:
        """Returns the address that opens a window."""
        installation = Installation(self._parts.code_server)
        await asyncio.to_thread(self._install_probe, installation)
        settings = VSCodeSettings(
            data=self._data,
            extension=self._parts.extension,
            hub=hub,
            token=token,
            user=USER,
            machine=MACHINE,
            environment=os.environ,
        )
        server = await self._stack.enter_async_context(VSCodeServer(installation, settings))
        return server.address(self._folder)

    def _install_probe(self, installation: Installation) -> None:
        where = (f"--user-data-dir={self._data}", f"--extensions-dir={self._data / 'extensions'}")
        command = [*installation.command, *where, "--install-extension", str(self._parts.probe)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the probe could not be installed: {done.stderr or done.stdout}")

    async def _open_page(self, address: str) -> Page:
        playwright = await self._stack.enter_async_context(async_playwright())
        browser = await playwright.chromium.launch(
            executable_path=self._parts.chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        self._stack.push_async_callback(browser.close)
        page = await browser.new_page(viewport={"width": 1400, "height": 900})
        await page.goto(address, wait_until="commit")
        return page

    async def _connect_asker(self) -> None:
        self.asker = socketio.AsyncClient(reconnection=False)
        await self.asker.connect(self.relay_url, transports=["websocket"], auth={"role": "asker"})
        self._stack.push_async_callback(self.asker.disconnect)


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdout is not None
    process.stdout.close()
