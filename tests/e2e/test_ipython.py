"""IPython in a real window of VS Code, with the same expectations as in a sandbox."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from bascule.core.actions import IPythonRun
from bascule.core.editor_actions import VscodeCommand
from bascule.core.observations import Error
from bascule.runtime import Verbs
from bascule.runtime.vscode import VSCodeRuntime
from bascule.sandbox.settings import SandboxSettings
from tests.contracts.ipython import SHOW_PIXEL, IPythonSuite
from tests.contracts.runtime import Make

from .code_server import CodeServer
from .rig import EditorWindow, Rig


@pytest.fixture(scope="module")
def server(rig: Rig) -> Iterator[CodeServer]:
    """A VS Code that does not ask before it closes a notebook in which a cell is being drawn."""
    server = rig.wait(rig.serve("ipython", {"files.autoSave": "onFocusChange"}))
    yield server
    rig.wait(rig.stop_serving(server))


@pytest.fixture(scope="module")
def window(
    rig: Rig, server: CodeServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EditorWindow]:
    folder = tmp_path_factory.mktemp("ipython") / "workspace"
    window = rig.wait(rig.open_window(folder, server=server))
    yield window
    rig.wait(window.page.context.close())


class InAWindow(VSCodeRuntime):
    """A runtime for an agent of its own, which closes its terminals and notebook when it leaves."""

    def __init__(self, rig: Rig, window: EditorWindow, **keywords: Any) -> None:
        token = rig.wait(rig.hub.tokens.create(rig.new_name(), "agent"))
        super().__init__(rig.url, token, window=window.id, **keywords)

    async def aclose(self) -> None:
        if not self._closed:
            await self.act(VscodeCommand("workbench.action.terminal.killAll"))
            await self.act(VscodeCommand("workbench.action.closeAllEditors"))
        await super().aclose()


class TestInAWindow(IPythonSuite):
    @pytest.fixture
    def workspace(self, window: EditorWindow) -> Iterator[Path]:
        self.window = window
        yield window.folder
        for entry in window.folder.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    @pytest.fixture
    def make(self, rig: Rig, window: EditorWindow) -> Make:
        self.rig = rig

        def make(settings: SandboxSettings, **keywords: Any) -> Verbs:
            return InAWindow(rig, window, **keywords)

        return make

    async def close_the_place(self, runtime: Verbs) -> None:
        """Reloading ends the extension host; what it started must not outlive it."""
        await VSCodeRuntime.aclose(runtime)  # type: ignore[arg-type]
        await self.rig.on(self.rig.reload(self.window))


@pytest.fixture
async def runtime(rig: Rig, window: EditorWindow) -> AsyncIterator[VSCodeRuntime]:
    async with InAWindow(rig, window) as runtime:
        # A test that reloaded the window left the notebook of its agent, which VS Code restored.
        await runtime.act(VscodeCommand("workbench.action.closeAllEditors"))
        yield runtime


async def test_the_user_sees_cells_and_their_output(
    rig: Rig, window: EditorWindow, runtime: VSCodeRuntime
) -> None:
    await runtime.run_ipython("answer = 6 * 7\nprint('seen by', answer)\nanswer")
    await runtime.run_ipython(SHOW_PIXEL)
    await runtime.run_ipython("1 / 0")

    async def look(page: Page) -> None:
        editor = page.locator(".notebook-editor")
        await expect(editor.locator(".cell.code .view-lines").first).to_contain_text("answer")
        outputs = page.frame_locator("iframe.webview.ready").frame_locator("#active-frame")
        await expect(outputs.get_by_text("seen by 42")).to_be_visible()
        await expect(outputs.locator("img").first).to_be_attached()
        await expect(outputs.get_by_text(re.compile("division by zero")).first).to_be_visible()

    await rig.on(look(window.page))


async def test_the_user_runs_a_cell_in_the_agents_kernel(
    rig: Rig, window: EditorWindow, runtime: VSCodeRuntime
) -> None:
    await runtime.run_ipython("runs = globals().get('runs', 0) + 1")

    async def run_again(page: Page) -> None:
        # Until then the cell is drawn anew, and has a button to stop it in this one's place.
        await expect(page.locator(".notebook-editor").get_by_text("[1]").first).to_be_visible()
        cell = page.locator(".notebook-editor .cell.code").first
        await cell.hover()
        await cell.get_by_role("button", name=re.compile("Execute Cell")).first.click()
        await expect(page.locator(".notebook-editor").get_by_text("[2]").first).to_be_visible()

    await rig.on(run_again(window.page))
    assert (await runtime.run_ipython("runs")).content == "2"


async def test_a_python_without_ipykernel_says_what_to_install(rig: Rig, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    bare.chmod(0o755)
    server = await rig.on(rig.serve("bare", {"bascule.python": str(bare)}))
    window = await rig.on(rig.open_window(tmp_path / "workspace", server=server))
    try:
        async with VSCodeRuntime(rig.url, await rig.agent_token(), window=window.id) as runtime:
            seen = await runtime.act(IPythonRun("1"))
            assert isinstance(seen, Error)
            assert seen.error_id == "machine.missing_tool"
            assert "-m pip install ipykernel" in seen.content
    finally:
        await rig.on(window.page.context.close())
        await rig.on(rig.stop_serving(server))
