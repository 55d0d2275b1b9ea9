"""Whatever is killed, and whenever: nothing is left that cannot be found and ended."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bascule.core.errors import BasculeError
from bascule.core.sessions import Egress, SandboxPlan, new_session_id
from bascule.runtime.spawn.local import LocalSpawner
from tests.contracts.runtime import gone
from tests.contracts.spawner import client

from .wardens import settings_in

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes things for other users"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
]


@pytest.fixture
def place() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="bsc-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def new_plan(place: Path) -> SandboxPlan:
    session_id = new_session_id()
    directory = place / "sessions" / session_id
    directory.mkdir(parents=True)
    return SandboxPlan(
        session_id=session_id,
        directory=directory,
        run_dir=place / "run" / session_id,
        key=f"key-{session_id}",
    )


def processes_of(*plans: SandboxPlan) -> dict[str, list[int]]:
    """Those of this test alone, by what they are."""
    inside = {pid for plan in plans for pid in _in_groups_of(plan)}
    below = _below(os.getpid())
    found: dict[str, list[int]] = {"warden": [], "zygote": [], "bwrap": []}
    for pid in sorted(inside | below):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if b"spawn.local.warden" in line:
            found["warden"].append(pid)
        elif b"_zygote_main" in line and pid not in inside:
            found["zygote"].append(pid)
        elif b"bwrap" in line and pid in inside:
            found["bwrap"].append(pid)
    return found


def _in_groups_of(plan: SandboxPlan) -> set[int]:
    files = (group / "cgroup.procs" for group in groups_of(plan))
    return {int(line) for file in files for line in file.read_text().split()}


def holders_of(place: Path) -> list[str]:
    """Processes of the whole machine that have anything in `place` open."""
    found = []
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if str(place) in str(link.readlink()):
                found.append(f"{link} {(link.parent.parent / 'cmdline').read_bytes()!r}")
        except OSError:
            continue
    return found


def _below(root: int) -> set[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def groups_of(plan: SandboxPlan) -> list[Path]:
    return list(Path("/sys/fs/cgroup").glob(f"*/bascule-*/{plan.session_id}"))


def mounts_in(place: Path) -> list[str]:
    return [
        line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(place) in line
    ]


async def ensure_nothing_is_left(place: Path, *plans: SandboxPlan) -> None:
    """After a spawner has looked and gone."""
    async with LocalSpawner(settings_in(place)) as spawner:
        await spawner.open()
        for each in await spawner.running():
            await spawner.stop(each.session_id)
    assert processes_of() == {"warden": [], "zygote": [], "bwrap": []}
    assert holders_of(place) == []
    assert mounts_in(place) == []
    for plan in plans:
        assert groups_of(plan) == []
        assert not plan.run_dir.exists()


async def test_sandboxes_survive_a_killed_warden_and_are_found_by_the_next(
    place: Path,
) -> None:
    plan = new_plan(place)
    async with LocalSpawner(settings_in(place)) as spawner:
        await spawner.open()
        await spawner.start(plan)
        async with client(plan) as runtime:
            await runtime.run("word=kept")
            ending = asyncio.create_task(spawner.wait_for_unexpected_end(plan.session_id))
            (warden,) = processes_of()["warden"]
            os.kill(warden, signal.SIGKILL)
            await gone(warden)
            assert [each.session_id for each in await spawner.running()] == [plan.session_id]
            assert (await runtime.run("echo $word")).content == "kept\n"
            assert not ending.done()
        await spawner.stop(plan.session_id)
        assert await ending
    await ensure_nothing_is_left(place, plan)


async def test_a_cancelled_request_for_a_new_warden_does_not_block_others(place: Path) -> None:
    """At the moment when there is one and nobody has spoken to it yet."""
    plan = new_plan(place)
    async with LocalSpawner(settings_in(place)) as spawner:
        await spawner.open()
        await spawner.start(plan)
        before = spawner._child
        (warden,) = processes_of()["warden"]
        os.kill(warden, signal.SIGKILL)
        await gone(warden)
        watching = asyncio.create_task(spawner.wait_for_unexpected_end(plan.session_id))
        while spawner._child is before:
            await asyncio.sleep(0)
        watching.cancel()
        await asyncio.wait({watching})
        async with asyncio.timeout(30):
            await spawner.stop(plan.session_id)
    await ensure_nothing_is_left(place, plan)


async def test_a_request_cancelled_before_the_warden_reads_it_is_answered(
    place: Path,
) -> None:
    """As while it starts: both then come at once."""
    async with LocalSpawner(settings_in(place)) as spawner:
        await spawner.open()
        client = await spawner._connected()
        asking = asyncio.create_task(client.request("running"))
        await asyncio.sleep(0)
        asking.cancel()
        async with asyncio.timeout(30):
            await asyncio.wait({asking})
        assert asking.cancelled()
        assert await spawner.running() == []


async def test_sandboxes_survive_a_killed_zygote_and_new_ones_can_be_started(
    place: Path,
) -> None:
    first, second = new_plan(place), new_plan(place)
    async with LocalSpawner(settings_in(place)) as spawner:
        await spawner.open()
        await spawner.start(first)
        (zygote,) = processes_of(first)["zygote"]
        os.kill(zygote, signal.SIGKILL)
        await gone(zygote)
        await spawner.start(second)
        for plan in (first, second):
            async with client(plan) as runtime:
                assert (await runtime.run("echo up")).content == "up\n"
        await asyncio.gather(*(spawner.stop(each.session_id) for each in (first, second)))
    await ensure_nothing_is_left(place, first, second)


@pytest.mark.parametrize("which", [0, 1])
async def test_a_sandbox_whose_bubblewrap_is_killed_can_still_be_stopped(
    place: Path, which: int
) -> None:
    """The outer one only waits; the inner one is the first process of the namespace."""
    plan = new_plan(place)
    async with LocalSpawner(settings_in(place)) as spawner:
        await spawner.open()
        await spawner.start(plan)
        victim = sorted(processes_of(plan)["bwrap"])[which]
        os.kill(victim, signal.SIGKILL)
        await gone(victim)
        if which == 1:
            assert await spawner.wait_for_unexpected_end(plan.session_id)
        else:
            async with client(plan) as runtime:
                assert (await runtime.run("echo up")).content == "up\n"
            await spawner.stop(plan.session_id)
        assert await spawner.running() == []
    await ensure_nothing_is_left(place, plan)


async def test_after_killing_every_process_the_next_spawner_cleans_up(
    place: Path,
) -> None:
    plan = new_plan(place)
    spawner = LocalSpawner(settings_in(place))
    await spawner.open()
    await spawner.start(plan)
    found = processes_of(plan)
    for pid in (*found["warden"], *found["zygote"], *found["bwrap"]):
        os.kill(pid, signal.SIGKILL)
    for pid in (*found["warden"], *found["zygote"], *found["bwrap"]):
        await gone(pid)
    await spawner.aclose()
    assert groups_of(plan)
    assert plan.run_dir.exists()
    await ensure_nothing_is_left(place, plan)
    assert (plan.directory / "workspace").is_dir()


async def test_a_kill_at_any_moment_of_a_start_leaves_nothing(place: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201
    chance = random.Random(seed)
    plans = [new_plan(place) for _ in range(12)]
    for plan in plans:
        spawner = LocalSpawner(settings_in(place))
        await spawner.open()
        starting = asyncio.create_task(spawner.start(plan))
        await asyncio.wait({starting}, timeout=chance.uniform(0, 0.25))
        found = processes_of(plan)
        victims = [pid for name in ("warden", "zygote", "bwrap") for pid in found[name]]
        victim = chance.choice(victims)
        os.kill(victim, signal.SIGKILL)
        try:
            await starting
        except BasculeError as error:
            print(f"killed {victim} of {found}: {error}")  # noqa: T201
        await spawner.aclose()
    await ensure_nothing_is_left(place, *plans)
    assert all(
        (plan.directory / "workspace").is_dir() for plan in plans if any(plan.directory.iterdir())
    )


async def test_a_new_hub_serves_egress_for_sandboxes_it_did_not_start(place: Path) -> None:
    plan = replace(new_plan(place), egress=Egress(mode="proxy", domains=("example.org",)))
    ask = "curl -s -o /dev/null -w '%{http_code}' http://elsewhere.example/"
    async with LocalSpawner(settings_in(place)) as spawner:
        await spawner.open()
        await spawner.start(plan)
        async with client(plan) as runtime:
            assert (await runtime.run(ask)).content.endswith("403")
    async with client(plan) as runtime:
        assert (await runtime.run(ask)).exit_code != 0
        async with LocalSpawner(settings_in(place)) as spawner:
            await spawner.open()
            assert (await runtime.run(ask)).content.endswith("403")
            await spawner.stop(plan.session_id)
    await ensure_nothing_is_left(place, plan)
