"""`LocalRuntime`, in process and as a child process."""

from __future__ import annotations

from typing import Any

import pytest

from bascule.runtime import LocalRuntime, Verbs
from bascule.sandbox.settings import SandboxSettings
from tests.contracts.runtime import Make, RuntimeSuite


class TestInProcess(RuntimeSuite):
    @pytest.fixture
    def make(self) -> Make:
        def make(settings: SandboxSettings, **keywords: Any) -> Verbs:
            return LocalRuntime(settings=settings, **keywords)

        return make


@pytest.mark.slow
class TestChildProcess(RuntimeSuite):
    @pytest.fixture
    def make(self) -> Make:
        def make(settings: SandboxSettings, **keywords: Any) -> Verbs:
            return LocalRuntime(settings=settings, process=True, **keywords)

        return make
