"""IPython through each kind of runtime that brings its own sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bascule.runtime import LocalRuntime, SyncRuntime, Verbs
from bascule.sandbox.settings import SandboxSettings
from tests.contracts.ipython import IPythonSuite
from tests.contracts.runtime import Make, settings

from .test_remote import Served


class TestInProcess(IPythonSuite):
    @pytest.fixture
    def make(self) -> Make:
        def make(settings: SandboxSettings, **keywords: Any) -> Verbs:
            return LocalRuntime(settings=settings, **keywords)

        return make


class TestRemote(IPythonSuite):
    @pytest.fixture
    def make(self) -> Make:
        def make(settings: SandboxSettings, **keywords: Any) -> Verbs:
            return Served(settings, **keywords)

        return make


@pytest.mark.slow
async def test_the_log_of_cells_is_read_and_searched(tmp_path: Path) -> None:
    async with Served(settings(tmp_path)) as runtime:
        await runtime.run_ipython("print('first'); print('second')")
        assert await runtime.read_log("ipython") == b"first\nsecond\n"
        (match,) = await runtime.search_log("sec", "ipython")
        assert match.text == "second"


@pytest.mark.slow
def test_cells_run_in_sync_code(tmp_path: Path) -> None:
    with SyncRuntime(LocalRuntime(tmp_path)) as runtime:
        assert runtime.run_ipython("6 * 7").content == "42"
