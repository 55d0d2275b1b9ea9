"""Sessions whose egress is `open`: what they reach, and machines on which they cannot be had."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bascule.core.errors import InvalidSetting, MissingTool
from bascule.core.sessions import Egress, SandboxPlan, new_session_id
from bascule.runtime.spawn.egress.networks import network_reach
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
    who: str, place: Path, *, tun: str = "", network: int | None = None, **others: object
) -> AsyncIterator[LocalSpawner]:
    settings = settings_in(place, **others)
    uid = 0 if who == "root" else SOMEBODY
    os.chown(place, uid, uid)
    tun = "" if who == "root" else tun
    async with (
        warden_of(uid, settings, place / "warden.sock", tun=tun, network=network) as path,
        LocalSpawner(settings, warden=path) as spawner,
    ):
        await spawner.open()
        try:
            yield spawner
        finally:
            for each in await spawner.running():
                await spawner.stop(each.session_id, grace=1)


async def test_a_user_without_access_to_dev_net_tun_gets_advice(
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


_INTERNET = """
set -e
ip link set lo up
ip route add local 203.0.113.0/24 dev lo  # for a public one
for each in 10.9.0.0/16 100.64.0.0/24 169.254.0.0/16 172.20.0.0/16 192.168.7.0/24; do
    ip route add local $each dev lo
done
ip address add 198.51.100.1/32 dev lo  # the machine's own
ip -6 route add local fd00:ec2::/64 dev lo || :
exec python3 -c '
import socket, sys, threading
def serve(listening):
    while True:
        link, _ = listening.accept()
        link.sendall(b"reached"); link.close()
four = socket.create_server(("0.0.0.0", 80))
six = socket.create_server(("::", 81), family=socket.AF_INET6)
for each in (four, six): threading.Thread(target=serve, args=(each,), daemon=True).start()
print("ready", flush=True); sys.stdin.read()
'
"""
PUBLIC = "203.0.113.7"
OWN = "198.51.100.1"
METADATA = "169.254.169.254"
PRIVATE = ("10.9.0.1", "100.64.0.1", "172.20.0.1", "192.168.7.1")


@pytest.fixture
def internet() -> Iterator[int]:
    """A network namespace that has everything, each address answering; a process in it."""
    if shutil.which("ip") is None:
        pytest.skip("needs iproute2")
    with subprocess.Popen(
        ["unshare", "--net", "sh", "-c", _INTERNET],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process.pid
        process.kill()


async def reached(spawner: LocalSpawner, plan: SandboxPlan) -> set[str]:
    """Which addresses a session reaches."""
    everything = (PUBLIC, OWN, METADATA, *PRIVATE, "10.0.2.2", "127.0.0.1")
    await spawner.start(plan)
    async with client(plan) as runtime:
        tried = [f"(timeout 5 cat </dev/tcp/{each}/80) && echo {each}" for each in everything]
        tried.append("(timeout 5 cat </dev/tcp/fd00:ec2::254/81) && echo six")
        seen = await runtime.run("; ".join(tried))
        await spawner.stop(plan.session_id)
    words = set(seen.content.replace("reached", "").split())
    return words & {*everything, "six"}


@pytest.mark.parametrize("who", ["root", "somebody"])
async def test_an_open_session_reaches_only_public_addresses(
    place: Path, new_plan: NewPlan, internet: int, who: str
) -> None:
    """Not the metadata service of a cloud, no private network, not the machine it runs on."""
    async with spawner_of(who, place, tun="0666", network=internet) as spawner:
        assert await reached(spawner, new_plan()) == {PUBLIC}


@pytest.mark.parametrize("who", ["root", "somebody"])
@pytest.mark.parametrize(
    ("networks", "more"),
    [
        (("10.9.0.0/16", "172.20.0.1/32"), {"10.9.0.1", "172.20.0.1"}),
        (("169.254.169.254/32", f"{OWN}/32"), {METADATA, OWN}),
        (("10.0.0.0/8", "192.168.0.0/16"), {"10.9.0.1", "192.168.7.1"}),
        (("0.0.0.0/0",), {OWN, METADATA, *PRIVATE}),
    ],
)
async def test_the_operator_can_permit_private_networks(
    place: Path,
    new_plan: NewPlan,
    internet: int,
    *,
    who: str,
    networks: tuple[str, ...],
    more: set[str],
) -> None:
    async with spawner_of(
        who, place, tun="0666", network=internet, open_networks=networks
    ) as spawner:
        assert await reached(spawner, new_plan()) == {PUBLIC, *more}


async def test_a_session_cannot_change_its_network_reach(
    place: Path, new_plan: NewPlan, internet: int
) -> None:
    attacks = (
        "ip route del unreachable 169.254.0.0/16; ip route add 169.254.169.254 via 10.0.2.2; "
        "ip link set tap0 down; nft flush ruleset; unshare -rn true; echo tried"
    )
    async with spawner_of("root", place, network=internet) as spawner:
        plan = replace(new_plan(), user="openhands", file_layout="openhands")
        await spawner.start(plan)
        async with client(plan) as runtime:
            for become in ("", "sudo "):
                await runtime.run(f"{become}sh -c '{attacks}'")
            seen = await runtime.run(f"timeout 5 cat </dev/tcp/{METADATA}/80")
            routes = await runtime.run("cat /proc/net/route")
        assert "reached" not in seen.content
        assert "tap0\t00000000" in routes.content


def test_an_invalid_open_network_is_named() -> None:
    with pytest.raises(InvalidSetting, match=r"open_networks: '10\.1\.2\.3/8' is not a network"):
        network_reach(["10.1.2.3/8"], [])


async def test_slirp4netns_has_its_own_user_and_no_privileges(
    spawner: LocalSpawner, new_plan: NewPlan
) -> None:
    """It reads packets that a session wrote: whoever takes it over has gained nothing."""
    plan = new_plan()
    others = set(processes_with("slirp4netns"))
    started = await spawner.start(plan)
    ours = set(processes_with("slirp4netns")) - others
    assert ours
    for pid in ours:
        status = Path(f"/proc/{pid}/status").read_text()
        facts = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
        uid = int(facts["Uid"].split()[0])
        if started.uid == SOMEBODY:  # who has nobody else to lend
            assert uid == SOMEBODY
        else:
            assert uid in range(70_000, 90_000)
            assert uid != started.uid
        assert int(facts["CapBnd"], 16) == 1 << 10  # NET_BIND_SERVICE, in its own namespace
        assert os.stat(f"/proc/{pid}/ns/user").st_ino != os.stat("/proc/self/ns/user").st_ino
        assert facts["NoNewPrivs"] == "1"
        assert set(os.listdir(f"/proc/{pid}/root")) == {"etc", "run"}
        assert facts["Seccomp"] == "2"
        limits = Path(f"/proc/{pid}/limits").read_text()
        assert "Max open files            4096" in limits
    await spawner.stop(plan.session_id)
    assert not ours.intersection(processes_with("slirp4netns"))
