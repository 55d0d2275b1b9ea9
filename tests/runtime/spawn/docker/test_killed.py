"""Kills at any stage of a session in a container lose no file and leave no container."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from bascule.runtime.spawn.docker.engine import Engine
from tests.cgroups import members_of
from tests.dockerd import Dockerd
from tests.hub.sessions.ordeal import Ordeal, Serving, Victims

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def place() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="bsc-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


class ContainerVictims(Victims):
    """`container` is its first process; `sandbox` is any other."""

    names = ("sandbox", "container")

    def __init__(self, address: str) -> None:
        self._address = address

    async def find(self, name: str, session_id: str, hub: Serving) -> Sequence[int]:
        pids = [pid for each in await self._containers(session_id) for pid in members_of(each)]
        return sorted(pids)[:1] if name == "container" else sorted(pids)[1:]

    async def left(self, session_id: str) -> Sequence[object]:
        return await self._containers(session_id)

    async def _containers(self, session_id: str) -> Sequence[str]:
        async with Engine(self._address) as engine:
            await engine.open()
            found = await engine.docker.containers.list(all="true")
        return [each.id for each in found if any(session_id in name for name in each["Names"])]


async def test_kills_during_container_starts_and_stops_lose_no_file(
    engine: Dockerd, image: str, place: Path
) -> None:
    settings = {
        "BASCULE_SPAWNERS": "docker",
        "BASCULE_DOCKER_ENGINE": engine.address,
        "BASCULE_DOCKER_IMAGE": image,
    }
    hub = Serving(place, settings)
    try:
        await Ordeal(hub, ContainerVictims(engine.address), kills=12).undergo()
    except BaseException:
        print(hub.said())  # noqa: T201
        raise
    finally:
        await hub.stop()
    assert os.listdir(place / "run" / ".doors") == []
