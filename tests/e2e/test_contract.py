"""The runtime contract in a real window of VS Code, with the same expectations as elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bascule.core.editor_actions import VscodeCommand
from bascule.runtime import Verbs
from bascule.runtime.vscode import VSCodeRuntime
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings
from tests.contracts.runtime import Make, RuntimeSuite

from .code_server import CodeServer
from .rig import EditorWindow, Rig

MISSING = {
    "test_invalid_utf8_bytes_are_kept_exactly_in_the_log": "log",
    "test_output_past_the_limit_keeps_head_and_tail_and_the_log_keeps_all": "log",
    "test_a_log_is_searched": "log",
    "test_reading_a_dropped_log_range_reports_what_is_left": "log",
    "test_an_unknown_shell_has_no_log": "log",
    "test_an_uploaded_file_is_downloaded_unchanged": "upload and download",
    "test_a_download_is_saved_under_the_given_name": "download",
    "test_uploading_a_zip_file_does_not_unpack_it": "upload",
    "test_a_directory_tree_is_uploaded_and_downloaded": "upload and download",
    "test_downloading_a_missing_path_fails": "download",
    "test_uploading_a_missing_path_fails": "upload",
}
"""Tests of what a window cannot do, and the capability each would need."""


class _InAWindow(VSCodeRuntime):
    """A runtime for an agent of its own, which closes its terminals when it leaves."""

    def __init__(self, rig: Rig, window: EditorWindow, **keywords: Any) -> None:
        token = rig.wait(rig.hub.tokens.create(rig.new_name(), "agent"))
        super().__init__(rig.url, token, window=window.id, **keywords)

    async def aclose(self) -> None:
        if not self._closed:
            await self.act(VscodeCommand("workbench.action.terminal.killAll"))
        await super().aclose()


class TestInAWindow(RuntimeSuite):
    commands_in_a_row = 100  # every one is drawn
    rounds_of_writing = 1  # every one is drawn and saved, which takes its time

    @pytest.fixture(autouse=True)
    def only_what_a_window_can_do(self, request: pytest.FixtureRequest) -> None:
        name = request.node.originalname
        if name in MISSING:
            pytest.skip(f"a window has no {MISSING[name]}")

    @pytest.fixture
    def workspace(self, vscode_window: EditorWindow) -> Iterator[Path]:
        self.window = vscode_window
        yield vscode_window.folder
        for entry in vscode_window.folder.iterdir():
            is_directory = entry.is_dir() and not entry.is_symlink()
            shutil.rmtree(entry) if is_directory else entry.unlink()

    @pytest.fixture
    def make(self, rig: Rig, vscode_window: EditorWindow, request: pytest.FixtureRequest) -> Make:
        self.rig = rig

        def make(settings: SandboxSettings, **keywords: Any) -> Verbs:
            soft = settings.shells.soft_timeout
            if soft == ShellSettings().soft_timeout:
                return _InAWindow(rig, vscode_window, **keywords)
            hasty: CodeServer = request.getfixturevalue("hasty")
            window = rig.wait(rig.open_window(settings.shells.working_dir, server=hasty))
            request.addfinalizer(lambda: rig.wait(window.page.context.close()))
            return _InAWindow(rig, window, **keywords)

        return make

    async def close_the_place(self, runtime: Verbs) -> None:
        """Reloading ends the extension host; what it started must not outlive it."""
        await VSCodeRuntime.aclose(runtime)  # type: ignore[arg-type]
        await self.rig.on(self.rig.reload(self.window))


@pytest.fixture(scope="module")
def hasty(rig: Rig) -> Iterator[CodeServer]:
    """A VS Code that answers silence early."""
    server = rig.wait(rig.serve("hasty", {"bascule.terminal.softTimeout": 0.1}))
    yield server
    rig.wait(rig.stop_serving(server))
