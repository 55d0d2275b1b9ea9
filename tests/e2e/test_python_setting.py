"""Without a usable `bascule.python` a window finds a Python by itself, or says what to set."""

from __future__ import annotations

import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Page, expect

from bascule.core.actions import Browse, IPythonRun
from bascule.core.editor_actions import OpenFile
from bascule.core.observations import BrowserOutput, Error, IPythonOutput
from bascule.runtime.vscode import VSCodeRuntime
from tests.sandbox.browser.pages import serving_pages

from .rig import EditorWindow, Rig

NET = Path(__file__).parents[2] / "examples/approval.evolve.yaml"
_HERE = Path(sys.executable).parent
_PATH = "/usr/bin:/bin"
"""Has a Python, and neither ipykernel nor bascule."""


@asynccontextmanager
async def _window(rig: Rig, folder: Path, python: str) -> AsyncIterator[EditorWindow]:
    settings = {"bascule.python": python}
    server = await rig.on(rig.serve(f"{folder.name}-data", settings, {"PATH": _PATH}))
    try:
        shutil.copy(NET, folder / "net.evolve.yaml")
        window = await rig.on(rig.open_window(folder, server=server))
        yield window
        await rig.on(window.page.context.close())
    finally:
        await rig.on(rig.stop_serving(server))


async def test_an_invalid_python_setting_is_named_by_each_feature_that_needs_it(
    rig: Rig, tmp_path: Path
) -> None:
    async with (
        _window(rig, tmp_path, "/nowhere/python") as window,
        VSCodeRuntime(rig.url, await rig.agent_token(), window=window.id) as agent,
    ):
        cell = await agent.act(IPythonRun("1 + 1"))
        assert isinstance(cell, Error)
        assert cell.error_id == "machine.missing_tool"
        assert "'/nowhere/python' (set bascule.python to" in cell.content
        browsed = await agent.act(Browse("http://127.0.0.1:9/"))
        assert isinstance(browsed, Error)
        assert browsed.error_id == "capability.missing"
        assert "setting bascule.python" in browsed.content
        await agent.act(OpenFile("net.evolve.yaml"))
        await rig.on(_told(window.page, "setting bascule.python cannot run bascule: /nowhere"))


async def test_without_a_python_setting_the_error_says_what_to_install_or_set(
    rig: Rig, tmp_path: Path
) -> None:
    async with (
        _window(rig, tmp_path, "") as window,
        VSCodeRuntime(rig.url, await rig.agent_token(), window=window.id) as agent,
    ):
        cell = await agent.act(IPythonRun("1 + 1"))
        assert isinstance(cell, Error)
        assert cell.error_id == "machine.missing_tool"
        assert "ipykernel" in cell.content
        assert "bascule.python" in cell.content
        await agent.act(OpenFile("net.evolve.yaml"))
        await rig.on(_told(window.page, "set bascule.python to a Python that has it"))


async def test_without_a_setting_the_workspaces_own_environment_is_used(
    rig: Rig, tmp_path: Path
) -> None:
    programs = tmp_path / ".venv/bin"
    programs.mkdir(parents=True)
    for name in ("python", "bascule"):
        (programs / name).write_text(f'#!/bin/sh\nexec {_HERE / name} "$@"\n')
        (programs / name).chmod(0o700)
    with serving_pages() as pages:
        async with (
            _window(rig, tmp_path, "") as window,
            VSCodeRuntime(rig.url, await rig.agent_token(), window=window.id) as agent,
        ):
            cell = await agent.act(IPythonRun("1 + 1"))
            assert isinstance(cell, IPythonOutput)
            assert "2" in cell.content
            browsed = await agent.act(Browse(f"{pages.url}/next"))
            assert isinstance(browsed, BrowserOutput)
            assert "# Next page" in browsed.content
            (tmp_path / "net.evolve.yaml").write_text("net: 1\n")
            await agent.act(OpenFile("net.evolve.yaml"))
            problem = window.page.locator(".squiggly-error, .squiggly-warning").first
            await rig.on(expect(problem).to_be_attached())


async def _told(page: Page, text: str) -> None:
    await expect(page.locator(".notification-toast", has_text=text)).to_be_visible()
