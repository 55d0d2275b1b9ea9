"""`VSCodeRuntime` on a real hub with a window that has no editor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bascule.core.errors import NotSupported
from bascule.hub import Identity
from bascule.runtime.verbs import Verbs
from bascule.runtime.vscode import VSCodeRuntime
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings
from bascule.testing.window import FakeWindow
from tests.contracts.runtime import Make, RuntimeSuite
from tests.hub.serving import RunningHub

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
    """A runtime that brings its hub and window along."""

    def __init__(self, settings: SandboxSettings, **keywords: Any) -> None:
        self.place = RunningHub()
        self._sandbox_settings = settings
        self.fake: FakeWindow | None = None
        super().__init__(self.place.url, "set when it is known", **keywords)

    async def connect(self) -> None:
        await self.place.__aenter__()
        self.fake = FakeWindow(self.place.url, self.place.window, self._sandbox_settings)
        await self.fake.connect()
        self._link = self.make_link()
        await super().connect()

    def make_link(self) -> Any:
        return VSCodeRuntime(self.place.url, self.place.agent)._link

    async def aclose(self) -> None:
        await super().aclose()
        if self.fake is not None:
            await self.fake.aclose()
        await self.place.hub.aclose()


class _InTheHub(_InAWindow):
    """The same without a socket between runtime and hub."""

    def make_link(self) -> Any:
        return self.place.hub.windows(Identity(name="agent", owner="admin", scope="agent"))


class _WindowSuite(RuntimeSuite):
    @pytest.fixture(autouse=True)
    def only_what_a_window_can_do(self, request: pytest.FixtureRequest) -> None:
        name = request.node.originalname
        if name in MISSING:
            pytest.skip(f"missing capability: {MISSING[name]}")


@pytest.mark.slow
class TestOverSockets(_WindowSuite):
    @pytest.fixture
    def make(self) -> Make:
        def make(settings: SandboxSettings, **keywords: Any) -> Verbs:
            return _InAWindow(settings, **keywords)

        return make


@pytest.mark.slow
class TestInTheHubsProcess(_WindowSuite):
    @pytest.fixture
    def make(self) -> Make:
        def make(settings: SandboxSettings, **keywords: Any) -> Verbs:
            return _InTheHub(settings, **keywords)

        return make


@pytest.mark.slow
async def test_a_window_without_language_features_says_so(tmp_path: Path) -> None:
    settings = SandboxSettings(shells=ShellSettings(working_dir=tmp_path))
    async with _InAWindow(settings) as runtime:
        assert runtime.capabilities.isdisjoint({"language", "rename_symbol", "format"})
        with pytest.raises(NotSupported, match="'language' actions are not available"):
            await runtime.references("a.ts", 1, "a")
        with pytest.raises(NotSupported, match="'rename_symbol' actions are not available"):
            await runtime.rename_symbol("a.ts", 1, "a", "b")
        with pytest.raises(NotSupported, match="'format' actions are not available"):
            await runtime.format("a.ts")
