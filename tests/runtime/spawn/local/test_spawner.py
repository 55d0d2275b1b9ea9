"""The spawner of kind `local` keeps every promise of spawners, as root and without any rights."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bascule.core.contracts import Spawner
from bascule.core.sessions import SandboxPlan, new_session_id
from bascule.runtime.spawn.local import LocalSpawner
from tests.contracts.spawner import MakeSpawner, SpawnerSuite, client

from .wardens import SOMEBODY, settings_in, warden_of

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes things for other users")


class TestLocal(SpawnerSuite):
    @pytest.fixture
    def make(self, place: Path) -> MakeSpawner:
        return lambda: LocalSpawner(settings_in(place))

    async def test_what_its_server_said_counts_as_disk(
        self, spawner: Spawner, plan: SandboxPlan, place: Path
    ) -> None:
        """A session can write there: the descriptor is in reach of its user."""
        await spawner.start(plan)
        before = await spawner.disk(plan.directory)
        with (place / "warden" / "logs" / plan.session_id).open("ab") as log:
            log.write(b"x" * (4 << 20))
            log.flush()
            os.fsync(log.fileno())
        assert await spawner.disk(plan.directory) >= before + (4 << 20)

    @needs_root
    async def test_a_folder_of_the_host_can_be_its_workspace(
        self, spawner: Spawner, plan: SandboxPlan, place: Path
    ) -> None:
        folder = place / "project"
        folder.mkdir()
        (folder / "code.py").write_text("print(1)\n")
        os.chown(folder, 12345, 12345)
        started = await spawner.start(replace(plan, folder=folder))
        assert started.uid not in (0, 12345)
        async with client(plan) as runtime:
            assert (await runtime.run("cat code.py; touch mine")).content == "print(1)\n"
        assert (folder / "mine").stat().st_uid == 12345


@needs_root
class TestLocalWithoutRights(SpawnerSuite):
    """The warden is a user like any other: user namespaces, no cgroups, weak limits."""

    @pytest.fixture
    async def make(self, place: Path) -> AsyncIterator[MakeSpawner]:
        os.chown(place, SOMEBODY, SOMEBODY)
        settings = settings_in(place)
        async with warden_of(SOMEBODY, settings, place / "warden.sock") as path:
            yield lambda: LocalSpawner(settings, warden=path)

    @pytest.fixture
    def new_plan(self, place: Path) -> Callable[[], SandboxPlan]:
        """The hub is that user too."""

        def new_plan() -> SandboxPlan:
            session_id = new_session_id()
            made = [place / "sessions", place / "run"]
            made += [each / session_id for each in made]
            made += [made[2] / name for name in ("workspace", "home", "state")]
            for each in made:
                each.mkdir(exist_ok=True)
                os.chown(each, SOMEBODY, SOMEBODY)
            return SandboxPlan(
                session_id=session_id, directory=made[2], run_dir=made[3], key=f"key-{session_id}"
            )

        return new_plan
