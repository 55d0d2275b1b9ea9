"""Sessions whose egress is `open`: what they reach, and machines on which they cannot be had."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bascule.core.errors import MissingTool
from bascule.core.sessions import Egress, SandboxPlan, new_session_id
from bascule.runtime.spawn.local import LocalSpawner
from tests.contracts.spawner import client, processes_with

from .wardens import SOMEBODY, settings_in, warden_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes things for other users"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
    pytest.mark.skipif(shutil.which("slirp4netns") is None, reason="needs slirp4netns"),
]

NewPlan = Callable[[], SandboxPlan]


@pytest.fixture
def place() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="bsc-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def new_plan(place: Path) -> NewPlan:
    def new_plan() -> SandboxPlan:
        owner = place.stat().st_uid
        session_id = new_session_id()
        made = [place / "sessions", place / "run", place / "sessions" / session_id]
        for each in made:
            each.mkdir(exist_ok=True)
            os.chown(each, owner, owner)
        return SandboxPlan(
            session_id=session_id,
            directory=made[2],
            run_dir=place / "run" / session_id,
            key="a-key",
            egress=Egress(mode="open"),
        )

    return new_plan


@pytest.fixture(params=["root", "somebody"])
async def spawner(place: Path, request: pytest.FixtureRequest) -> AsyncIterator[LocalSpawner]:
    """Of root, and of a user on a machine that lets everybody open `/dev/net/tun`."""
    async with spawner_of(request.param, place, tun="0666") as spawner:
        yield spawner


@asynccontextmanager
async def spawner_of(
    who: str, place: Path, *, tun: str = "", **others: object
) -> AsyncIterator[LocalSpawner]:
    settings = settings_in(place, **others)
    uid = 0 if who == "root" else SOMEBODY
    os.chown(place, uid, uid)
    async with (
        warden_of(uid, settings, place / "warden.sock", tun="" if who == "root" else tun) as path,
        LocalSpawner(settings, warden=path) as spawner,
    ):
        await spawner.open()
        try:
            yield spawner
        finally:
            for each in await spawner.running():
                await spawner.stop(each.session_id, grace=1)


async def test_an_ordinary_user_who_may_not_open_the_device_is_told_how_to(
    place: Path, new_plan: NewPlan
) -> None:
    """At once and in a sentence; and the session can be had without a network."""
    async with spawner_of("somebody", place, tun="0600") as spawner:
        plan = new_plan()
        with pytest.raises(MissingTool, match=r"may not open /dev/net/tun .*chmod 0666") as told:
            await spawner.start(plan)
        assert "Traceback" not in str(told.value)
        assert await spawner.running() == []
        await spawner.start(replace(plan, egress=Egress(mode="off")))
        async with client(plan) as runtime:
            assert (await runtime.run("tail -n +2 /proc/net/route")).content == ""


async def test_an_open_session_reaches_the_machines_address_and_not_its_loopback(
    spawner: LocalSpawner, new_plan: NewPlan
) -> None:
    """By an address that others reach too, since there may be no Internet here."""
    plan = new_plan()
    others = set(processes_with("slirp4netns"))
    await spawner.start(plan)
    ours = set(processes_with("slirp4netns")) - others
    assert ours
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        address = probe.getsockname()[0]
    public, own = socket.create_server((address, 0)), socket.create_server(("127.0.0.1", 0))
    with public, own:
        port = own.getsockname()[1]
        async with client(plan) as runtime:
            seen = await runtime.run(
                f"(: </dev/tcp/{address}/{public.getsockname()[1]}) && echo out; "
                f"(: </dev/tcp/10.0.2.2/{port}) && echo LOOPBACK; "
                f"(: </dev/tcp/127.0.0.1/{port}) && echo LOOPBACK; cat /etc/resolv.conf"
            )
    assert "out\n" in seen.content
    assert "LOOPBACK" not in seen.content
    assert seen.content.endswith("nameserver 10.0.2.3\n")
    await spawner.stop(plan.session_id)
    assert not ours.intersection(processes_with("slirp4netns"))
