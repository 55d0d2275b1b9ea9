"""`PlainSpawner` passes the suite, and starts nothing for somebody who did not mean it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bascule.core.errors import CannotIsolate, NotSupported
from bascule.core.sessions import SandboxPlan, new_session_id
from bascule.runtime.spawn.plain import PlainSpawner
from tests.contracts.spawner import MakeSpawner, SpawnerSuite, client


class TestPlain(SpawnerSuite):
    @pytest.fixture
    def make(self, place: Path) -> MakeSpawner:
        return lambda: PlainSpawner(place / "run", allow_unisolated=True)

    def run_dir_inside(self, plan: SandboxPlan) -> str:
        return str(plan.run_dir)


async def test_the_plain_spawner_opens_only_with_allow_unisolated(tmp_path: Path) -> None:
    with pytest.raises(CannotIsolate, match="--allow-unisolated"):
        await PlainSpawner(tmp_path).open()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"user": "openhands"}, "not as openhands"),
        ({"file_layout": "openhands"}, "file layout"),
    ],
)
async def test_unsupported_plan_options_are_rejected_naming_spawners_that_support_them(
    tmp_path: Path, asked: dict[str, Any], said: str
) -> None:
    plan = SandboxPlan(
        session_id=new_session_id(), directory=tmp_path, run_dir=tmp_path, key="a-key", **asked
    )
    async with PlainSpawner(tmp_path, allow_unisolated=True) as spawner:
        await spawner.open()
        with pytest.raises(NotSupported, match=f"{said}.*local or docker"):
            await spawner.start(plan)


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory whose name leaves room for that of a socket."""
    path = Path(tempfile.mkdtemp(prefix="bsc-"))
    yield path
    shutil.rmtree(path)


@pytest.mark.slow
async def test_a_killed_sandbox_leaves_nothing_in_tmp(short: Path) -> None:
    session_id = new_session_id()
    plan = SandboxPlan(
        session_id=session_id,
        directory=short / session_id,
        run_dir=short / "run" / session_id,
        key="a-key",
        environment={"TMPDIR": str(short / "tmp")},
    )
    for each in (plan.directory / "workspace", short / "tmp"):
        each.mkdir(parents=True)
    async with PlainSpawner(short / "run", allow_unisolated=True) as spawner:
        await spawner.open()
        await spawner.start(plan)
        async with client(plan) as runtime:
            await runtime.run("sleep 1000 & echo busy")
        assert os.listdir(short / "tmp") != []
        await spawner.pause(session_id)
        await spawner.stop(session_id, grace=0)
        assert os.listdir(short / "tmp") == []
