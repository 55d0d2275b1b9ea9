"""The tmux kind of shell: the contract, and what is its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bascule.core.contracts import Shell
from bascule.sandbox.shell.settings import ShellSettings
from bascule.sandbox.shell.shells import Shells
from tests.contracts.shell import ShellSuite


@pytest.fixture
async def shells(tmp_path: Path) -> AsyncIterator[Shells]:
    settings = ShellSettings(working_dir=tmp_path, soft_timeout=1.0, log_limit=4 << 20, kind="tmux")
    async with Shells(settings) as shells:
        yield shells


@pytest.fixture
async def shell(shells: Shells) -> Shell:
    return shells.open("main")


class TestTmuxShell(ShellSuite):
    pass
