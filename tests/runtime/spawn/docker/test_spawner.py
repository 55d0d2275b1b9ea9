"""The spawner of kind `docker` keeps every promise of spawners, on a real engine."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import sys
import tempfile
import textwrap
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bascule.core.contracts import Spawner
from bascule.core.errors import AccessDenied, MissingTool, SandboxStartFailed
from bascule.core.sessions import Egress, SandboxPlan, SessionLimits
from bascule.runtime.spawn.docker import DockerSpawner
from bascule.runtime.spawn.docker.container import SCOPE, container_name
from bascule.runtime.spawn.docker.engine import Engine
from tests.contracts.runtime import gone
from tests.contracts.spawner import MakeSpawner, SpawnerSuite, client, processes_with, server_of
from tests.dockerd import Dockerd, MakeSettings
from tests.runtime.spawn.docker.plans import new_plan

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(300)]

MIB = 1 << 20
MANY = """
import subprocess
made = []
try:
    while len(made) < 100:
        made.append(subprocess.Popen(["sleep", "100"]))
except OSError as error:
    print(len(made), error.strerror)
"""
PATIENT_CURL = "curl -s --retry 30 --retry-connrefused --retry-delay 1"


REACH = """
import socket, struct
rows = [line.split() for line in open("/proc/net/route").readlines()[1:]]
gateway = next(row[2] for row in rows if row[1] == row[7] == "00000000" and int(row[3], 16) & 2)
gateway = socket.inet_ntoa(struct.pack("=I", int(gateway, 16)))
for host in (gateway, "169.254.169.254", "203.0.113.7"):
    with socket.socket() as sock:
        sock.settimeout(3)
        print(sock.connect_ex((host, 80)))
"""
"""Prints what a connection ended with: to this machine, to the metadata service of a cloud, and to
a public address. Whether somebody is there is another question: there is a route, or not."""


class TestDocker(SpawnerSuite):
    @pytest.fixture
    def make(self, place: Path, settings_in: MakeSettings) -> MakeSpawner:
        return lambda: DockerSpawner(settings_in(place, allow_root=True, kept_for=0.0))

    # Owners -------------------------------------------------------------------------------

    async def test_files_a_tmux_shell_writes_in_a_host_folder_belong_to_its_owner(
        self, spawner: Spawner, plan: SandboxPlan, place: Path
    ) -> None:
        folder = place / "project"
        folder.mkdir()
        os.chown(folder, 12345, 23456)
        started = await spawner.start(replace(plan, folder=folder, shells="tmux"))
        async with client(plan) as runtime:
            seen = await runtime.run(
                "id -un; tmux -V >/dev/null && mkdir a && echo hi > a/b; id -u"
            )
        assert started.uid == 12345
        assert seen.content == "bascule\n12345\n"
        for made in (folder / "a", folder / "a/b"):
            assert (made.stat().st_uid, made.stat().st_gid) == (12345, 23456)

    async def test_each_session_of_a_root_hub_has_its_own_uid(
        self, spawner: Spawner, new_plan: Callable[[], SandboxPlan]
    ) -> None:
        one, two = new_plan(), new_plan()
        first, second = await asyncio.gather(spawner.start(one), spawner.start(two))
        assert first.uid != second.uid
        assert {first.uid, second.uid}.isdisjoint({0, None})
        async with client(one) as runtime:
            await runtime.run("touch mine")
        assert (one.directory / "workspace" / "mine").stat().st_uid == first.uid
        await spawner.stop(one.session_id)
        assert (await spawner.start(one)).uid == first.uid

    async def test_a_session_has_the_requested_user_name_and_file_layout(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        asked = replace(plan, user="openhands", file_layout="openhands")
        await spawner.start(asked)
        async with client(asked) as runtime:
            seen = await runtime.run("whoami; echo ~; touch ~/made && stat -c %U ~/made .")
            cell = await runtime.run_ipython(
                "import sys; print(sys.executable, file_editor('view', '/nowhere')[:6])"
            )
            sudo = await runtime.run("sudo true")

        assert seen.content.splitlines() == ["openhands", "/home/openhands", *["openhands"] * 2]
        assert "/openhands/poetry/openhands-ai-5O4_aCHf-py3.12/bin/python ERROR:" in cell.content
        assert sudo.exit_code == 127

    async def test_a_folder_of_root_needs_allow_root(
        self, plan: SandboxPlan, place: Path, settings_in: MakeSettings
    ) -> None:
        async with DockerSpawner(settings_in(place)) as strict:
            await strict.open()
            (place / "project").mkdir()
            with pytest.raises(AccessDenied, match="allow_root"):
                await strict.start(replace(plan, folder=place / "project"))

    @pytest.mark.parametrize("folder", ["/etc", "{place}/link"])
    async def test_a_folder_outside_the_allowed_roots_is_rejected(
        self, spawner: Spawner, plan: SandboxPlan, place: Path, folder: str
    ) -> None:
        (place / "link").symlink_to("/etc")
        with pytest.raises(AccessDenied):
            await spawner.start(replace(plan, folder=Path(folder.format(place=place))))

    async def test_a_session_has_no_privileges_in_its_container(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        await spawner.start(plan)
        async with client(plan) as runtime:
            seen = await runtime.run("grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status")
        assert seen.content.split() == [
            *("CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1"),
        ]

    @pytest.mark.parametrize("networks", [(), ("0.0.0.0/0",)])
    async def test_an_open_session_reaches_the_internet_and_not_this_machine(
        self, plan: SandboxPlan, place: Path, settings_in: MakeSettings, networks: tuple[str, ...]
    ) -> None:
        """Nor the metadata service of a cloud; unless that is meant."""
        plan = replace(plan, egress=Egress(mode="open"))
        async with DockerSpawner(settings_in(place, open_networks=networks)) as spawner:
            await spawner.open()
            await spawner.start(plan)
            async with client(plan) as runtime:
                await runtime.write("reach.py", REACH)
                seen = await runtime.run("python3 reach.py")
                changed = await runtime.run("ip route add 169.254.169.254/32 dev eth0")
            await spawner.stop(plan.session_id)
        unreachable = [word == str(errno.EHOSTUNREACH) for word in seen.content.split()]
        assert changed.exit_code != 0
        assert unreachable == [not networks, not networks, False]

    async def test_container_writes_outside_the_workspace_count_as_disk_use(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        await spawner.start(plan)
        before = await spawner.disk(plan.directory)
        async with client(plan) as runtime:
            await runtime.run("head -c 8M /dev/urandom >/var/tmp/big; sync /var/tmp/big")
        assert await spawner.disk(plan.directory) >= before + (8 << 20)

    async def test_the_engine_stores_no_secret(
        self, spawner: Spawner, plan: SandboxPlan, engine: Dockerd
    ) -> None:
        assert isinstance(spawner, DockerSpawner)
        await spawner.start(replace(plan, environment={"TOKEN": "a-secret-of-theirs"}))
        async with Engine(engine.address) as asked:
            await asked.open()
            name = container_name(spawner.settings, plan.session_id)
            shown = str(await asked.container(name).show())
        assert plan.session_id in shown
        assert plan.key not in shown
        assert "a-secret-of-theirs" not in shown

    # Limits -------------------------------------------------------------------------------

    async def test_memory_past_the_limit_is_refused_and_the_sandbox_lives(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        await spawner.start(replace(plan, limits=SessionLimits(memory=200 * MIB)))
        async with client(plan) as runtime:
            seen = await runtime.run("python3 -c 'x = b\"x\" * (400 << 20)'; echo status $?")
            assert "status 137" in seen.content
            assert (await runtime.run("echo up")).content == "up\n"

    async def test_processes_past_the_limit_are_refused(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        await spawner.start(replace(plan, limits=SessionLimits(processes=40)))
        async with client(plan) as runtime:
            await runtime.write("many.py", MANY)
            made, _, why = (await runtime.run("python3 many.py")).content.partition(" ")
            assert 10 < int(made) < 40
            assert why == "Resource temporarily unavailable\n"
        assert (await spawner.usage(plan.session_id)).processes <= 40

    async def test_cpu_time_is_capped_at_the_limit(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        await spawner.start(replace(plan, limits=SessionLimits(cpus=0.2)))
        async with client(plan) as runtime:
            spin = "for i in 1 2; do timeout 1 bash -c 'while :; do :; done' & done; wait; times"
            await runtime.write("spin.sh", f"{spin}\n")
            seen = await runtime.run("bash spin.sh | tail -1")
        user, system = seen.content.split()
        assert sum(map(_seconds, (user, system))) < 0.6

    # The network --------------------------------------------------------------------------

    async def test_without_egress_there_is_no_network(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        await spawner.start(plan)
        async with client(plan) as runtime:
            assert (await runtime.run("ls /sys/class/net")).content == "lo\n"

    async def test_proxy_egress_works_after_a_hub_restart(
        self, make: MakeSpawner, plan: SandboxPlan
    ) -> None:
        asking = "curl -sS -o /dev/null -w '%{http_code}\\n' http://elsewhere.example/"
        async with self.another(make) as first:
            await first.start(replace(plan, egress=Egress(mode="proxy", domains=["a.example"])))
            async with client(plan) as runtime:
                assert (await runtime.run("ls /sys/class/net")).content == "lo\n"
                assert (await runtime.run(asking)).content == "403\n"
        async with client(plan) as runtime:
            assert "403" not in (await runtime.run(asking)).content  # nobody is there to say it
            async with self.another(make) as second:
                assert (await runtime.run(asking)).content == "403\n"
                await second.stop(plan.session_id)

    async def test_open_egress_reaches_no_other_session(
        self, spawner: Spawner, new_plan: Callable[[], SandboxPlan], engine: Dockerd
    ) -> None:
        assert isinstance(spawner, DockerSpawner)
        plans = [replace(new_plan(), egress=Egress(mode="open")) for _ in range(2)]
        await asyncio.gather(*map(spawner.start, plans))
        _, (_, address) = await self.addresses(spawner, engine, plans)
        async with client(plans[0]) as one, client(plans[1]) as two:
            await two.run("(setsid python3 -m http.server 8081 >/dev/null 2>&1 &)")
            await two.run(f"{PATIENT_CURL} -f http://{address}:8081/")
            refused = await one.run(f"curl -s -m 1 http://{address}:8081/; echo $?")
            assert refused.content in ("7\n", "28\n")
        for plan in plans:
            await spawner.stop(plan.session_id)
        async with Engine(engine.address) as asked:
            await asked.open()
            names = {each["Name"] for each in await asked.docker.networks.list()}
        assert names == {"bridge", "host", "none"}

    async def addresses(
        self, spawner: DockerSpawner, engine: Dockerd, plans: Sequence[SandboxPlan]
    ) -> tuple[str, list[str]]:
        """Of the engine in the sessions' network, and of each session."""
        async with Engine(engine.address) as asked:
            await asked.open()
            shown = await (await asked.docker.networks.get(spawner.settings.network)).show()
            names = [container_name(spawner.settings, each.session_id) for each in plans]
            members = [await asked.container(each).show() for each in names]
        networks = [each["NetworkSettings"]["Networks"] for each in members]
        found = [each[spawner.settings.network]["IPAddress"] for each in networks]
        return shown["IPAM"]["Config"][0]["Gateway"], found

    # Spawners that die --------------------------------------------------------------------

    @pytest.mark.parametrize("stage", range(5))
    async def test_containers_left_by_a_killed_spawner_are_found(
        self, spawner: Spawner, plan: SandboxPlan, engine: Dockerd, stage: int
    ) -> None:
        assert isinstance(spawner, DockerSpawner)
        settings = spawner.settings
        program = _program(settings_text=repr(settings), plan_text=repr(plan), key=plan.key)
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program), stdout=asyncio.subprocess.PIPE
        )
        assert child.stdout is not None
        for _ in range(stage + 1):
            assert await child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        await child.wait()
        for found in await spawner.running():
            await spawner.stop(found.session_id, grace=0)
        await spawner.running()  # what never ran is removed on the way
        await spawner.start(plan)
        async with client(plan) as runtime:
            assert (await runtime.run("echo up")).content == "up\n"
        async with Engine(engine.address) as asked:
            await asked.open()
            left = await asked.all(f"{SCOPE}={settings.scope}")
        assert [found.session_id for found in left] == [plan.session_id]

    async def test_a_sandbox_without_launch_parameters_ends_by_itself(
        self, spawner: Spawner, plan: SandboxPlan, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("bascule.sandbox.session.launch.SandboxLaunch.to_json", lambda _: b"")
        with pytest.raises(SandboxStartFailed, match="launch parameters"):
            await spawner.start(plan)

    # Ends ---------------------------------------------------------------------------------

    async def test_orphans_are_reaped(self, spawner: Spawner, plan: SandboxPlan) -> None:
        await spawner.start(plan)
        async with client(plan) as runtime:
            await runtime.run("(setsid sleep 0 &); (setsid true &)")
            while "Z" in (await runtime.run("ps -eo stat=")).content:
                pass

    async def test_the_log_tail_of_a_killed_server_outlives_its_container(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        await spawner.start(replace(plan, shells="pty"))
        server = server_of(plan)
        os.kill(server, signal.SIGKILL)
        await gone(server)
        await spawner.stop(plan.session_id)
        assert (plan.directory / "sandbox.log").is_file()
        assert processes_with(plan.session_id) == []


async def test_an_unprivileged_hub_shares_only_its_own_files(
    engine: Dockerd, settings_in: MakeSettings
) -> None:
    """As a user that is in the engine's group, and nobody else."""
    place = Path(tempfile.mkdtemp(prefix="bsc-"))
    try:
        os.chown(place, 4321, 4321)
        settings = settings_in(place)
        plan = new_plan(settings)
        drop = "os.setgroups([]); os.setgid(4321); os.setuid(4321)"
        program = _program(
            settings_text=repr(settings), plan_text=repr(plan), key=plan.key, first=drop
        )
        engine.admit(4321)
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program), stdout=asyncio.subprocess.PIPE
        )
        assert child.stdout is not None
        said = [line.decode().strip() async for line in until(child.stdout, b"started\n")]
        child.kill()
        await child.wait()
        assert said[-1] == "started"
        async with client(plan) as runtime:
            await runtime.run("touch made; id -u > number")
        made = plan.directory / "workspace"
        assert (made / "number").read_text() == "4321\n"
        assert (made / "made").stat().st_uid == 4321
        assert (plan.run_dir / "sandbox.sock").stat().st_uid == 4321
        async with DockerSpawner(settings) as spawner:
            await spawner.open()
            await spawner.stop(plan.session_id)
    finally:
        shutil.rmtree(place)


async def until(stream: asyncio.StreamReader, last: bytes) -> AsyncIterator[bytes]:
    async for line in stream:
        yield line
        if line == last:
            return


async def test_an_unreachable_engine_is_reported_by_address(
    tmp_path: Path, settings_in: MakeSettings
) -> None:
    spawner = DockerSpawner(settings_in(tmp_path, engine=f"unix://{tmp_path}/none.sock"))
    with pytest.raises(MissingTool, match=r"none\.sock.*docker\.io"):
        await spawner.open()


def _seconds(text: str) -> float:
    minutes, seconds = text.rstrip("s").split("m")
    return int(minutes) * 60 + float(seconds)


def _program(*, settings_text: str, plan_text: str, key: str, first: str = "") -> str:
    """A process that starts the sandbox and prints a line for each stage, and one at the end."""
    plan_text = plan_text.replace("SandboxPlan(", f"SandboxPlan(key={key!r}, environment={{}}, ", 1)
    return textwrap.dedent(f"""
        import asyncio, os
        from pathlib import Path, PosixPath
        from bascule.core.sessions import *
        from bascule.runtime.spawn.docker import *
        {first}

        async def main():
            spawner = DockerSpawner({settings_text})
            await spawner.open()
            await spawner.start({plan_text}, on_stage=lambda said: print(said, flush=True))
            print("started", flush=True)
            await asyncio.Event().wait()

        asyncio.run(main())
    """)
