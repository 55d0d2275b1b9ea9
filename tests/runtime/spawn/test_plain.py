"""`PlainSpawner` passes the suite, and starts nothing for somebody who did not mean it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bascule.core.errors import CannotIsolate
from bascule.runtime.spawn.plain import PlainSpawner
from tests.contracts.spawner import MakeSpawner, SpawnerSuite


class TestPlain(SpawnerSuite):
    @pytest.fixture
    def make(self, place: Path) -> MakeSpawner:
        return lambda: PlainSpawner(place / "run", allow_unisolated=True)


async def test_it_opens_only_when_that_is_meant(tmp_path: Path) -> None:
    with pytest.raises(CannotIsolate, match="--allow-unisolated"):
        await PlainSpawner(tmp_path).open()
