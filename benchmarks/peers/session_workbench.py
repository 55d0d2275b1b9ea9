"""Ours: the VS Code of a session, from the request of the session to files on the screen."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

from playwright.async_api import Browser, Page, async_playwright

import bascule
from bascule.core.errors import CannotIsolate
from bascule.core.sessions import SessionId
from bascule.hub import Hub, HubSettings, Identity
from bascule.runtime import CloudRuntime
from bascule.runtime.spawn.local import LocalSettings, LocalSpawner
from bascule.runtime.spawn.vscode import SharedVSCode
from bascule.sandbox.vscode.installation import VERSION, Installation
from bascule.sandbox.vscode.shared import shared_extensions
from benchmarks import processes
from benchmarks.peers.local_sessions import TOKEN, pids_of
from benchmarks.peers.serve import respond
from benchmarks.peers.subject import Refused
from benchmarks.peers.window_rig import Parts

DRAWN = 120_000
SETTLE_SECONDS = 5.0
"""A window that has just been drawn has things to do, and tells nobody when they are done."""
ADMIN = Identity(name="bench", owner="admin", scope="admin")


class SessionWorkbench:
    """A hub with sessions of kind `local`, and a person's browser. Nothing runs before `drawn`."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._place = Path(tempfile.mkdtemp(prefix="bench-"))
        self._stack = AsyncExitStack()
        self._hub: Hub | None = None
        self._browser: Browser

    async def start(self) -> None:
        """There is nothing to start: it would be in the way of other cases."""

    async def stop(self) -> None:
        await self._stack.aclose()
        shutil.rmtree(self._place, ignore_errors=True)

    async def hello(self) -> dict[str, Any]:
        versions = {"bascule": bascule.__version__, "code-server": VERSION}
        return {"pid": os.getpid(), "versions": versions, "server_pid": None}

    async def drawn(self) -> dict[str, Any]:
        """By somebody whose browser has seen nothing of it before."""
        hub = await self._opened()
        began = perf_counter()
        async with CloudRuntime(hub.local_url, TOKEN, remove=True) as runtime:
            await runtime.write("note.txt", "text\n")
            ready = perf_counter()
            page = await self._draw(runtime.vscode_url)
            ended = perf_counter()
            await page.context.close()
        return {"create_drawn": ended - began, "open_drawn": ended - ready}

    async def weigh(self) -> dict[str, Any]:
        """One session: by itself, with VS Code, with a person's tab, with its own window."""
        hub = await self._opened()
        async with CloudRuntime(hub.local_url, TOKEN, remove=True) as runtime:
            await runtime.run("echo text > note.txt")
            session_id = SessionId(runtime.session_id)
            found = {"idle_bytes": await _weight(session_id)}
            line, _ = await hub.sessions.enter(session_id)
            await hub.sessions.windows.open(session_id, line)
            found["vscode_bytes"] = await _weight(session_id)
            page = await self._draw(runtime.vscode_url)
            found["client_bytes"] = await _weight(session_id)
            await page.context.close()
            await hub.sessions.window(ADMIN, session_id)
            found["window_bytes"] = await _weight(session_id)
        return found

    async def _opened(self) -> Hub:
        if self._hub is None:
            place = self._place
            local = LocalSettings(
                sessions_dir=place / "sessions",
                run_dir=place / "run",
                state_dir=place / "warden",
                vscode=await asyncio.to_thread(self._vscode),
            )
            settings = HubSettings(admin_token=TOKEN, state_dir=place)
            hub = Hub(settings, spawners={"local": LocalSpawner(local)})
            await self._stack.enter_async_context(hub)
            error = hub.sessions._lifecycle.unusable.get("local")
            if isinstance(error, CannotIsolate):
                raise Refused(str(error)) from error
            playwright = await self._stack.enter_async_context(async_playwright())
            self._browser = await playwright.chromium.launch(
                executable_path=str(self._parts.chromium), args=["--no-sandbox", "--disable-gpu"]
            )
            self._stack.push_async_callback(self._browser.close)
            self._hub = hub
        return self._hub

    def _vscode(self) -> SharedVSCode:
        installation = Installation(self._parts.code_server)
        extensions = shared_extensions(installation, self._parts.extension)
        return SharedVSCode(installation.home, extensions)

    async def _draw(self, address: str) -> Page:
        page = await self._browser.new_page(viewport={"width": 1200, "height": 800})
        await page.goto(f"{address}?tkn={TOKEN}")
        await page.locator(".explorer-folders-view .monaco-list-row").first.wait_for(timeout=DRAWN)
        return page


async def _weight(session_id: SessionId) -> int:
    """With its share of what processes have in common."""
    await asyncio.sleep(SETTLE_SECONDS)
    return processes.memory(await asyncio.to_thread(pids_of, session_id)).pss


if __name__ == "__main__":
    respond(SessionWorkbench(Parts(*map(Path, sys.argv[1:]))))
