"""Attacks from inside a session of the spawner `docker`: the list that `local` has too."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bascule.runtime.remote import RemoteRuntime
from bascule.runtime.spawn.docker import DockerSettings, DockerSpawner
from tests.contracts.spawner import client
from tests.dockerd import MakeSettings
from tests.runtime.spawn.attacks.report import SET_ID, Report, attacked
from tests.runtime.spawn.attacks.terminals import open_terminals, take_terminals

from .plans import new_plan

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(300)]

PERSON = 12345
HELD_OTHERWISE = ("mounts_that_keep_set_id_bits", "secrets_to_read")
"""Set-ID bits count nowhere, since no program gains privileges; and see `of_the_machine`."""
MASKED_BY_NEWER_ENGINES = {"/proc/interrupts"}


@pytest.fixture
def place() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="bsc-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@asynccontextmanager
async def session(settings: DockerSettings, **given: object) -> AsyncIterator[RemoteRuntime]:
    plan = new_plan(settings, **given)
    plan.directory.mkdir(parents=True)
    async with DockerSpawner(settings) as spawner:
        await spawner.open()
        await spawner.start(plan)
        try:
            async with client(plan) as runtime:
                yield runtime
        finally:
            await spawner.stop(plan.session_id, grace=1)


def of_the_machine(report: Report) -> set[str]:
    """Secrets but those of the image, which are no secrets."""
    found = report.attacks["secrets_to_read"]
    tops = ("/proc/", "/sys/", "/dev/", "/run/docker", "/var/run/docker")
    return {path for path in found if path.startswith(tops)} - MASKED_BY_NEWER_ENGINES


async def test_a_session_with_its_own_workspace_gains_only_files_of_its_leased_uid(
    place: Path, settings_in: MakeSettings
) -> None:
    async with session(settings_in(place)) as runtime:
        report = await attacked(runtime, place.name)
    assert report.gained("set_id_files", *HELD_OTHERWISE) == {}
    assert of_the_machine(report) == set()
    assert set(report.attacks["set_id_files"]) <= set(SET_ID)


@pytest.mark.parametrize("owner", [0, PERSON])
async def test_a_session_in_a_host_folder_gains_no_rights(
    place: Path, settings_in: MakeSettings, owner: int
) -> None:
    """Also where that is root's and allowed, for which it is UID 0 in its container."""
    folder = place / "project"
    folder.mkdir()
    os.chown(folder, owner, owner)
    async with session(settings_in(place, allow_root=True), folder=folder) as runtime:
        report = await attacked(runtime, place.name)
    assert report.gained(*HELD_OTHERWISE) == {}
    assert of_the_machine(report) == set()
    assert report.seen["uid"] == owner


async def test_a_session_cannot_control_terminals_of_the_host(
    place: Path, settings_in: MakeSettings
) -> None:
    settings = settings_in(place)
    async with session(settings) as first, session(settings) as second:
        count, error = await take_terminals(first)
        assert (count < 128, error) == (True, "No space left on device")
        assert await open_terminals(second, 50) == 50
