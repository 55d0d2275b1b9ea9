"""The spawner of kind `local` keeps every promise of spawners, as root and without any rights."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from bascule.core.contracts import Spawner
from bascule.core.sessions import SandboxPlan
from bascule.runtime.spawn.local import LocalSettings, LocalSpawner
from tests.contracts.spawner import MakeSpawner, SpawnerSuite, client


def settings_in(place: Path) -> LocalSettings:
    return LocalSettings(
        sessions_dir=place / "sessions",
        run_dir=place / "run",
        state_dir=place / "warden",
        workspace_roots=(place,),
    )


class TestLocal(SpawnerSuite):
    @pytest.fixture
    def make(self, place: Path) -> MakeSpawner:
        return lambda: LocalSpawner(settings_in(place))

    @pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder away")
    async def test_a_folder_of_the_host_can_be_its_workspace(
        self, spawner: Spawner, plan: SandboxPlan, place: Path
    ) -> None:
        folder = place / "project"
        folder.mkdir()
        (folder / "code.py").write_text("print(1)\n")
        os.chown(folder, 12345, 12345)
        started = await spawner.start(replace(plan, folder=folder))
        assert started.uid == 12345
        async with client(plan) as runtime:
            assert (await runtime.run("cat code.py; touch mine")).content == "print(1)\n"
        assert (folder / "mine").stat().st_uid == 12345
