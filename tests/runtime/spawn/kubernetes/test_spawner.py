"""The spawner of kind `kubernetes` keeps every promise of spawners, on a real cluster."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from bascule.core.contracts import Spawner
from bascule.core.errors import SandboxStartFailed
from bascule.core.sessions import Egress, RunningSandbox, SandboxPlan, SessionLimits, new_session_id
from bascule.runtime.spawn.kubernetes.cluster_access import from_kubeconfig
from bascule.runtime.spawn.kubernetes.failures import (
    RUNNING,
    STARTING_ITS_CONTAINER,
    WAITING_FOR_A_MACHINE,
    WAITING_FOR_ITS_VOLUME,
)
from bascule.runtime.spawn.kubernetes.pods import pod_name
from bascule.runtime.spawn.kubernetes.settings import KubernetesSettings
from bascule.runtime.spawn.kubernetes.spawner import KubernetesSpawner
from tests.contracts.spawner import MakeSpawner, SpawnerSuite, client, processes_with
from tests.kubernetes_cluster import HUB, NAMESPACE, PROJECT, Cluster
from tests.kubernetes_image import IMAGE

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow, pytest.mark.timeout(300)]

SESSION_UID = 1000
STAGES = (
    "creating its pod",
    WAITING_FOR_A_MACHINE,
    WAITING_FOR_ITS_VOLUME,
    STARTING_ITS_CONTAINER,
    RUNNING,
    "waiting for its network policy",
    "waiting for its action server",
)
"""In their order."""
OBJECTS = f"api/v1/namespaces/{NAMESPACE}"

Make = Callable[..., KubernetesSpawner]


@pytest.fixture
def make_with(cluster: Cluster, place: Path) -> Make:
    """Spawners with given settings."""
    access = from_kubeconfig(cluster.kubeconfig("hub", HUB))

    def make_with(**given: Any) -> KubernetesSpawner:
        settings = KubernetesSettings(
            sessions_dir=place / "sessions",
            run_dir=place / "run",
            key_file=place / "key.pem",
            image=IMAGE,
            storage_class="",
            volume_size="1Mi",
            kept_for=0.0,
        )
        return KubernetesSpawner(
            replace(settings, **given), access, hub_sockets_dir=place / "hub", resolve=nowhere
        )

    return make_with


async def nowhere(_host: str, _port: int) -> list[str]:
    return []


@pytest.fixture
def new_plan(cluster: Cluster, place: Path) -> Iterator[Callable[[], SandboxPlan]]:
    """Plans whose volume is the session's directory here, so tests see both ends."""
    made: list[str] = []

    def new_plan() -> SandboxPlan:
        session_id = new_session_id()
        directory = place / "sessions" / session_id
        for part in (".", "workspace", "home", "state"):
            (directory / part).mkdir(parents=True, exist_ok=True)
            shutil.chown(directory / part, SESSION_UID, SESSION_UID)
        name = pod_name(session_id)
        cluster.apply(volume(name, directory))
        made.append(name)
        return SandboxPlan(
            session_id=session_id,
            directory=directory,
            run_dir=place / "run" / session_id,
            key="key-of-" + session_id,
        )

    yield new_plan
    for name in made:
        for path in (f"{OBJECTS}/pods", f"{OBJECTS}/persistentvolumeclaims"):
            with suppress(urllib.error.HTTPError):
                cluster.call("DELETE", f"{path}/{name}", {"gracePeriodSeconds": 0})
        with suppress(urllib.error.HTTPError):
            cluster.call("DELETE", f"api/v1/persistentvolumes/{name}")


def volume(name: str, directory: Path) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": str(directory)},
            "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": NAMESPACE, "name": name},
        },
    }


@pytest.fixture
def isolation(cluster: Cluster) -> Iterator[None]:
    with cluster.isolated():
        yield


@pytest.mark.usefixtures("isolation")
class TestKubernetes(SpawnerSuite):
    @pytest.fixture
    def make(self, make_with: Make) -> MakeSpawner:
        return make_with

    @pytest.fixture
    def new_plan(self, new_plan: Callable[[], SandboxPlan]) -> Callable[[], SandboxPlan]:
        return new_plan

    def server_of(self, plan: SandboxPlan) -> int:
        (server,) = processes_with("bascule.sandbox.session")
        return server

    async def start_and_cancel(self, spawner: Spawner, plan: SandboxPlan, stage: str) -> None:
        """At the stage, or at the next one: a second start finds its volume at once."""
        starting: asyncio.Task[RunningSandbox]

        def cancel(said: str) -> None:
            if STAGES.index(said) >= STAGES.index(stage):
                asyncio.get_running_loop().call_soon(starting.cancel)

        starting = asyncio.create_task(spawner.start(plan, on_stage=cancel))
        with pytest.raises(asyncio.CancelledError):
            await starting

    async def test_a_host_folder_can_be_the_workspace(
        self, spawner: Spawner, plan: SandboxPlan, place: Path
    ) -> None:
        """It cannot, since the pod may run on any machine; the error says so."""
        with pytest.raises(SandboxStartFailed, match=f"cannot use the folder {place}"):
            await spawner.start(replace(plan, folder=place))

    async def test_a_sandbox_outlives_its_spawner_and_is_found_by_another(
        self, spawner: Spawner, make: MakeSpawner, plan: SandboxPlan
    ) -> None:
        """While no hub runs, nothing serves the session's sockets."""
        await spawner.aclose()
        async with self.another(make) as first:
            await first.start(plan)
            async with client(plan) as runtime:
                await runtime.run("word=kept")
        assert list(plan.run_dir.iterdir()) == []
        async with self.another(make) as second:
            assert [each.session_id for each in await second.running()] == [plan.session_id]
            assert (await second.usage(plan.session_id)).processes > 0
            await second.start(plan)
            async with client(plan) as runtime:
                assert (await runtime.run("echo $word")).content == "kept\n"
        await spawner.open()  # for the fixture, which ends what runs

    async def test_the_cluster_stores_no_secret_of_a_session(
        self, spawner: Spawner, plan: SandboxPlan, cluster: Cluster
    ) -> None:
        await spawner.start(replace(plan, environment={"TOKEN": "a-marked-secret"}))
        async with client(plan) as runtime:
            assert (await runtime.run("echo $TOKEN")).content == "a-marked-secret\n"
        for kind in ("pods", "events", "secrets", "configmaps", "persistentvolumeclaims"):
            text = json.dumps(cluster.call("GET", f"{OBJECTS}/{kind}"))
            assert plan.key not in text
            assert "a-marked-secret" not in text

    async def test_a_session_has_the_images_variables_and_no_token(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        await spawner.start(plan)
        async with client(plan) as runtime:
            seen = await runtime.run(
                "echo $FROM_IMAGE; id -u; whoami; pwd; env; ls /var/run/secrets"
            )
        lines = seen.content.splitlines()
        assert lines[:4] == ["yes", "1000", "bascule", "/workspace"]
        assert "KUBERNETES_" not in seen.content
        assert "BASCULE_HUB_CERTIFICATE" not in seen.content
        assert "No such file" in lines[-1]

    async def test_a_pod_reaches_the_network_through_the_hubs_proxy_only(
        self, spawner: Spawner, make_with: Make, plan: SandboxPlan
    ) -> None:
        asked = replace(plan, egress=Egress(mode="proxy", domains=("a.example",)))
        await spawner.start(asked)
        program = (
            "import urllib.request, urllib.error, sys\n"
            "try: urllib.request.urlopen(sys.argv[1], timeout=60)\n"
            "except urllib.error.HTTPError as e: print(e.read().decode())\n"
        )
        async with client(asked) as runtime:
            await runtime.write("/workspace/ask.py", program)
            for host, answer in (("a", "has no address"), ("b", "may not reach b.example:80")):
                seen = await runtime.run(f"python3 ask.py http://{host}.example/")
                assert answer in seen.content

    async def test_programs_of_a_session_reach_the_hub(
        self, spawner: Spawner, plan: SandboxPlan, place: Path
    ) -> None:
        hub_socket = place / "hub" / plan.session_id / "hub.sock"
        hub_socket.parent.mkdir(parents=True)

        async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"from the hub\n")
            writer.close()

        server = await asyncio.start_unix_server(greet, hub_socket)
        asked = replace(plan, hub_socket=hub_socket)
        await spawner.start(asked)
        program = (
            "import socket; s = socket.socket(socket.AF_UNIX); "
            "s.connect('/run/hub/hub.sock'); print(s.recv(99).decode(), end='')"
        )
        async with client(asked) as runtime:
            assert (await runtime.run(f'python3 -c "{program}"')).content == "from the hub\n"
        server.close()


# Failures, each shown by a real one ------------------------------------------------------------


async def failure(spawner: KubernetesSpawner, plan: SandboxPlan) -> str:
    """What is said about a start that fails; nothing of it is left."""
    async with spawner:
        await spawner.open()
        with pytest.raises(SandboxStartFailed) as failed:
            await spawner.start(plan)
        assert await spawner.running() == []
        assert await spawner._find(plan.session_id) is None
    return failed.value.message


@pytest.fixture
def plan(new_plan: Callable[[], SandboxPlan]) -> SandboxPlan:
    return new_plan()


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = Path(f"/tmp/bsc-{os.urandom(4).hex()}")
    path.mkdir(mode=0o755)
    yield path
    shutil.rmtree(path)


async def test_a_cluster_that_enforces_no_policy_runs_no_isolated_session(
    make_with: Make, plan: SandboxPlan
) -> None:
    message = await failure(make_with(policy_timeout=1.0), plan)
    assert "The cluster does not isolate the pod" in message
    assert list((plan.directory / "state").iterdir()) == []  # nothing of the session ran


async def test_a_session_is_launched_when_a_late_policy_holds(
    make_with: Make, plan: SandboxPlan, cluster: Cluster
) -> None:
    waiting = asyncio.Event()

    def on_stage(stage: str) -> None:
        if "network policy" in stage:
            waiting.set()

    async with make_with() as spawner:
        await spawner.open()
        starting = asyncio.create_task(spawner.start(plan, on_stage=on_stage))
        await waiting.wait()
        assert list((plan.directory / "state").iterdir()) == []
        with cluster.isolated():
            await starting
            await spawner.stop(plan.session_id, grace=0)


async def test_an_image_that_cannot_be_pulled_is_named(make_with: Make, plan: SandboxPlan) -> None:
    message = await failure(make_with(start_timeout=20.0), replace(plan, image="nowhere/image:1"))
    assert "within 20 seconds. The image nowhere/image:1 cannot be pulled" in message


async def test_an_invalid_image_fails_at_once(make_with: Make, plan: SandboxPlan) -> None:
    message = await failure(make_with(), replace(plan, image="Not/An:Image:Name"))
    assert "The image Not/An:Image:Name cannot be pulled" in message


async def test_a_cluster_without_room_says_so(make_with: Make, plan: SandboxPlan) -> None:
    message = await failure(make_with(node_selector={"no": "such"}, start_timeout=10.0), plan)
    assert "within 10 seconds. No machine of the cluster has room: 0/1 nodes" in message


async def test_a_volume_that_cannot_be_created_names_the_setting(
    make_with: Make, plan: SandboxPlan
) -> None:
    other = replace(plan, session_id=new_session_id())  # which has no volume
    message = await failure(make_with(start_timeout=10.0), other)
    assert "The volume of the session cannot be created" in message
    assert "kubernetes_storage_class" in message


async def test_a_used_up_quota_names_the_namespace(
    make_with: Make, plan: SandboxPlan, cluster: Cluster
) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": "0"}}}
    metadata = {"name": "none", "namespace": NAMESPACE}
    cluster.apply({**quota, "metadata": metadata})
    path = f"{OBJECTS}/resourcequotas/none"
    try:
        while "hard" not in cluster.call("GET", path).get("status", {}):
            await asyncio.sleep(0.1)
        message = await failure(make_with(), plan)
    finally:
        cluster.call("DELETE", path)
    assert f"The quota of the namespace {NAMESPACE} is used up" in message


async def test_a_session_without_enough_memory_says_how_much_it_had(
    make_with: Make, plan: SandboxPlan
) -> None:
    limits = SessionLimits(memory=24 << 20)
    message = await failure(make_with(allow_unisolated=True), replace(plan, limits=limits))
    assert "it had used all of its memory" in message


async def test_a_pod_that_somebody_deletes_is_reported(
    make_with: Make, plan: SandboxPlan, cluster: Cluster
) -> None:
    async with make_with(allow_unisolated=True) as spawner:
        await spawner.open()
        await spawner.start(plan)
        ending = asyncio.create_task(spawner.wait_for_unexpected_end(plan.session_id))
        path = f"{OBJECTS}/pods/{pod_name(plan.session_id)}"
        await asyncio.to_thread(cluster.call, "DELETE", path, {"gracePeriodSeconds": 1})
        assert "deleted" in await ending
        await spawner.stop(plan.session_id)
        assert await spawner.running() == []


def test_the_cluster_accepts_every_object_of_deploy(cluster: Cluster) -> None:
    place = PROJECT / "deploy" / "kubernetes"
    for file in ("namespaces.yaml", "role.yaml", "policies.yaml", "hub.yaml"):
        cluster.apply(*YAML(typ="safe").load_all(place / file))
    policies = f"apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies"
    assert len(cluster.call("GET", policies)["items"]) == 2


async def test_the_hub_has_no_rights_beyond_its_role(cluster: Cluster) -> None:
    for path in ("api/v1/nodes", f"{OBJECTS}/secrets", "api/v1/pods"):
        with pytest.raises(urllib.error.HTTPError, match="403"):
            await asyncio.to_thread(cluster.call, "GET", path, token=HUB)
