"""A real VS Code: code-server with Bascule's extension, opened in browser tabs.

`scripts/editor` installs the server and the browser outside the work tree, `scripts/vsix` builds
the extension. Everything here runs on the loop that called `start`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, Page

from bascule.sandbox.vscode.installation import Installation
from bascule.sandbox.vscode.server import VSCodeServer, VSCodeSettings

ROOT = Path(__file__).parents[2]
CHROMIUM = str(Path(__file__).parents[1] / "chromium")
WAITING = 90_000
"""Milliseconds to wait for an element of a page."""


def install_editor() -> Path:
    """The directory of code-server. Installs code-server and a browser if they are missing."""
    return Path(_output("scripts/editor", "--with-browser"))


def build_extension() -> Path:
    return ROOT / _output("scripts/vsix")


def build_hub_page() -> None:
    subprocess.run([str(ROOT / "scripts/web")], check=True)


def _output(script: str, *arguments: str) -> str:
    command = [str(ROOT / script), *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip().splitlines()[-1]


def _add_extension(source: Path, directory: Path) -> None:
    """Install an unpacked extension: copy it to the extensions directory before the first start."""
    manifest = json.loads((source / "package.json").read_text())
    name = f"{manifest['publisher']}.{manifest['name']}-{manifest['version']}"
    shutil.copytree(source, directory / name)


SETTINGS: dict[str, Any] = {
    "files.autoSave": "off",
    "git.enabled": False,
    "security.workspace.trust.enabled": False,
    "terminal.integrated.enablePersistentSessions": False,
    # Chromium would emulate a graphics processor with the CPU. Also, without it the text of
    # terminals is in the page.
    "terminal.integrated.gpuAcceleration": "off",
    "bascule.autoConnect": True,
    "bascule.python": sys.executable,  # this Python has ipykernel and Playwright
    "bascule.consent": {"*": "allow"},
    "bascule.allowedCommands": ["workbench.action.*", "undo", "bascule.stop"],
}
"""Default settings of every window: no consent questions, no network, no automatic actions."""


class CodeServer:
    """The VS Code server of `bascule up`, with its own data. Its windows are browser tabs."""

    def __init__(
        self,
        home: Path,
        data: Path,
        *,
        settings: dict[str, Any],
        environment: dict[str, str] | None = None,
        extensions: Sequence[Path] = (),
    ) -> None:
        self._home = home
        self._extensions = extensions
        self._data = data
        self._settings = {**SETTINGS, **settings}
        self._environment = environment or {}
        self._server: VSCodeServer | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return self._server.url

    async def start(self, vsix: Path) -> None:
        for each in self._extensions:
            _add_extension(each, self._data / "extensions")
        self._temporary = tempfile.TemporaryDirectory(prefix="bsc-")
        kept = {name: os.environ[name] for name in ("LANG", "PATH") if name in os.environ}
        home = self._data.with_name(f"{self._data.name}-home")  # without start-up files
        home.mkdir(exist_ok=True)
        settings = VSCodeSettings(
            data=self._data,
            extension=vsix,
            user=self._settings,
            machine=self._settings,
            environment={
                **kept,
                "HOME": str(home),
                "TMPDIR": self._temporary.name,  # killed extension hosts leave files there
                **self._environment,
            },
        )
        self._server = VSCodeServer(Installation(self._home), settings)
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.aclose()
        if self._temporary is not None:
            self._temporary.cleanup()

    def logs(self) -> list[Path]:
        return sorted((self._data / "logs").rglob("*.log"))

    async def open(self, browser: Browser, folder: Path, *, script: str = "") -> Page:
        """Open a tab with the folder, in a new browser context."""
        context = await browser.new_context(viewport={"width": 1400, "height": 900})
        await context.add_init_script(script)
        return await self.open_tab(context, folder)

    async def open_tab(self, context: BrowserContext, folder: Path) -> Page:
        """Open a tab in an existing browser context. Does not wait until the extension has
        connected to the hub."""
        assert self._server is not None
        page = await context.new_page()
        page.set_default_timeout(WAITING)
        await page.goto(self._server.address(folder))
        return page
