"""A hub with the mount, and a client of it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bascule.adapters.openhands_hub import OpenHandsV0Mount
from bascule.hub import Identity
from tests.hub.serving import RunningHub

from .asking import LenientSpawner, Openhands


@pytest.fixture
async def hub() -> AsyncIterator[RunningHub]:
    directory = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="bsc-"))
    spawner = LenientSpawner(directory / "run", allow_unisolated=True)
    here = RunningHub(
        directory,
        spawners=lambda: {"plain": spawner},
        mounts=(OpenHandsV0Mount,),
        public_url="https://hub.example",
        allowed_hosts=("127.0.0.1",),
    )
    try:
        async with here:
            yield here
            admin = Identity(name="admin", owner="admin", scope="admin")
            for row in here.hub.sessions.list(admin):
                await here.hub.sessions.remove(admin, row.id)
    finally:
        await asyncio.to_thread(shutil.rmtree, directory)


@pytest.fixture
async def client(hub: RunningHub) -> AsyncIterator[Openhands]:
    async with Openhands(hub.url, hub.agent) as client:
        yield client
